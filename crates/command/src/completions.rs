//! `pgthaw completions`: the work is done in clap, from the same source as the help; nothing of `src/` is used.

use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::Context as _;
use clap::Args;
use clap_complete::Shell;

use super::ExitStatus;
use host::files::{FileMode, write_whole};

/// Print the completions of a shell, or write the manual pages
#[derive(Debug, Args)]
pub struct CompletionsArguments {
    /// The shell to complete in: pgthaw completions bash > /etc/bash_completion.d/pgthaw. Or man: a manual page for every command
    #[arg(value_parser = ["bash", "elvish", "fish", "powershell", "zsh", MAN])]
    shell: String,

    /// Where manual pages are written
    #[arg(required_if_eq("shell", MAN))]
    directory: Option<PathBuf>,
}

const MAN: &str = "man";

/// Runs the command.
pub async fn run(
    arguments: CompletionsArguments,
    mut command: clap::Command,
    program: &'static str,
) -> anyhow::Result<ExitStatus> {
    match (arguments.shell.parse::<Shell>(), arguments.directory) {
        (Ok(shell), _) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command, program, &mut script);
            terminal::print_verbatim(String::from_utf8_lossy(&script).trim_end());
        }
        (Err(_), Some(directory)) => write_pages(command, &directory)
            .with_context(|| format!("cannot write manual pages to {}", directory.display()))?,
        (Err(problem), None) => anyhow::bail!(problem),
    }
    Ok(ExitStatus::Done)
}

/// Each whole or not at all. They are no secret: everybody is to read them.
fn write_pages(command: clap::Command, directory: &Path) -> io::Result<()> {
    FileMode::PUBLIC.apply();
    let drafts = tempfile::tempdir()?;
    clap_mangen::generate_to(command, drafts.path())?;
    for draft in fs::read_dir(drafts.path())? {
        let draft = draft?;
        write_whole(&directory.join(draft.file_name()), &fs::read(draft.path())?)?;
    }
    Ok(())
}
