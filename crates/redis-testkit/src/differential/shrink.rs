//! Makes a failing list of requests short: removes pieces while it still fails, large ones first.

use super::request::Request;

/// A shorter list for which `fails` still holds, after so many trials at most. It holds for `requests`.
pub(super) fn shrink(
    mut requests: Vec<Request>,
    trials_max: usize,
    mut fails: impl FnMut(&[Request]) -> bool,
) -> Vec<Request> {
    let mut trials = 0;
    let mut piece = requests.len().div_ceil(2);
    while piece > 0 && trials < trials_max {
        let mut start = 0;
        let mut removed = false;
        while start < requests.len() && trials < trials_max {
            let end = (start + piece).min(requests.len());
            let shorter = [&requests[..start], &requests[end..]].concat();
            trials += 1;
            if fails(&shorter) {
                requests = shorter;
                removed = true;
            } else {
                start = end;
            }
        }
        if piece > 1 {
            piece /= 2;
        } else if !removed {
            break;
        }
    }
    shorten_arguments(requests, trials_max.saturating_sub(trials), fails)
}

/// Removes the last arguments of long requests while the list still fails.
fn shorten_arguments(
    mut requests: Vec<Request>,
    mut trials_left: usize,
    mut fails: impl FnMut(&[Request]) -> bool,
) -> Vec<Request> {
    for at in 0..requests.len() {
        while requests[at].len() > 6 && trials_left > 0 {
            let mut shorter = requests.clone();
            let length = shorter[at].len();
            shorter[at].truncate(length - (length / 4).max(1));
            trials_left -= 1;
            if !fails(&shorter) {
                break;
            }
            requests = shorter;
        }
    }
    requests
}
