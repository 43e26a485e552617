//! Crashes of recoveries: at cuts of the trace that an open leaves, and inside of the recovery from that.

use super::{Crashed, Inner, MAX_DEPTH, Nesting, Recording, Sweep};
use crate::Outcome;
use crate::image_choice::ImageChoice;
use esker::parts::env::fault::{Crash, Replayer, StrictFs};

/// The crashes to simulate at a cut of a recovery.
fn crashes(cut: usize) -> [Crash; CRASHES] {
    [Crash::Process, Crash::PowerAllLost, Crash::PowerRandom { seed: cut as u64 }]
}

const CRASHES: usize = 3;

impl Recording {
    /// Crashes the recovery that `image` went through, up to the end of opening, as `inner` says.
    pub(super) fn crash_recovery(
        &self,
        image: &StrictFs,
        opened_at: usize,
        crashed: Crashed<'_>,
        inner: Inner,
        sweep: &mut Sweep,
    ) -> Outcome {
        match inner {
            Inner::None | Inner::Images(0) => Ok(()),
            Inner::Nested(nesting) => self.crash_at_every_cut(image, opened_at, crashed, nesting, sweep),
            Inner::Images(images) => self.crash_at_some_cuts(image, opened_at, crashed, images, sweep),
        }
    }

    /// At every cut; inside of recoveries from that at some cuts, spread over them.
    fn crash_at_every_cut(
        &self,
        image: &StrictFs,
        opened_at: usize,
        crashed: Crashed<'_>,
        nesting: Nesting,
        sweep: &mut Sweep,
    ) -> Outcome {
        let depth = crashed.crashes.len();
        let step = if depth == 1 { 1 } else { opened_at.div_ceil(nesting.deeper_cuts).max(1) };
        let mut replayer = image.replayer();
        // Not the same cuts in each recovery.
        let first = sweep.images as usize % step;
        for cut in (first..opened_at).step_by(step) {
            replayer.advance_to(cut);
            let kinds = crashes(cut);
            let kinds = if depth == 1 { &kinds[..] } else { std::slice::from_ref(&kinds[cut % CRASHES]) };
            for next in kinds {
                let is_chosen = depth > 1 || (sweep.nested[0] + 1).is_multiple_of(nesting.deeper_every);
                let is_deeper = depth < MAX_DEPTH && is_chosen;
                let inner = if is_deeper { Inner::Nested(nesting) } else { Inner::None };
                self.check_again(&replayer, *next, crashed, inner, sweep)?;
            }
        }
        Ok(())
    }

    /// At cuts that a seed chooses, until `images` have been checked.
    fn crash_at_some_cuts(
        &self,
        image: &StrictFs,
        opened_at: usize,
        crashed: Crashed<'_>,
        images: u64,
        sweep: &mut Sweep,
    ) -> Outcome {
        let is_deeper = crashed.crashes.len() < MAX_DEPTH;
        // Not the same cuts in each recovery.
        let mut choice = ImageChoice::new(sweep.images, images, (opened_at * CRASHES) as u64, is_deeper);
        let mut replayer = image.replayer();
        for cut in 0..opened_at {
            replayer.advance_to(cut);
            for next in crashes(cut) {
                let Some(share) = choice.next_share() else { continue };
                let before = sweep.images;
                let inner = Inner::Images(share - 1);
                self.check_again(&replayer, next, crashed, inner, sweep)?;
                choice.spend(sweep.images - before);
            }
        }
        Ok(())
    }

    /// Checks what is left when the recovery from `crashed`, replayed up to a cut, crashes there.
    fn check_again(
        &self,
        replayer: &Replayer,
        next: Crash,
        crashed: Crashed<'_>,
        inner: Inner,
        sweep: &mut Sweep,
    ) -> Outcome {
        let depth = crashed.crashes.len();
        sweep.nested[depth - 1] += 1;
        let crashes = [crashed.crashes, &[next]].concat();
        let crashed = Crashed { crashes: &crashes, ..crashed };
        let outcome = self.check_image(&replayer.image(next), crashed, inner, sweep);
        let cut = replayer.position();
        outcome.map_err(|failure| failure.during(format_args!("cut {cut} of recovery {depth}, {next:?}")))
    }
}
