//! Arguments of `completions` and `man`.

use clap::Args;
use clap_complete::Shell;
use std::path::PathBuf;

/// Print what lets a shell complete the command line
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  esker completions bash > /usr/share/bash-completion/completions/esker
  esker completions zsh > ~/.zfunc/_esker
  esker completions fish > ~/.config/fish/completions/esker.fish")]
pub(crate) struct CompletionsArgs {
    /// bash, elvish, fish, powershell or zsh
    #[arg(value_name = "SHELL", hide_possible_values = true)]
    pub(crate) shell: Shell,
}

/// Write the manual pages, one for each command
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  esker man ~/.local/share/man/man1 && man esker-backup")]
pub(crate) struct ManArgs {
    /// Where to write them; pages of the same names are replaced
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}
