use std::fs::{File, OpenOptions};
use std::io;

use console::Term;
use nix::sys::termios::{SetArg, tcgetattr, tcsetattr};

/// Reads a password without echo, as psql does; `None` without a terminal. On Ctrl-C or a signal, restores the terminal
/// and exits.
pub async fn ask_password(prompt: &str) -> io::Result<Option<String>> {
    let Ok(terminal) = OpenOptions::new().read(true).write(true).open("/dev/tty") else { return Ok(None) };
    let before = tcgetattr(&terminal)?;
    let (answer, answered) = tokio::sync::oneshot::channel();
    let (prompt, asked) = (prompt.to_owned(), terminal.try_clone()?);
    // A plain thread: at exit, the runtime would wait for a thread of its own until the user types.
    std::thread::spawn(move || answer.send(read_hidden(asked, &prompt)));
    tokio::select! {
        answer = answered => answer.unwrap_or(Err(io::ErrorKind::UnexpectedEof.into())).map(Some),
        _ = super::wait_for_interrupt() => {
            tcsetattr(&terminal, SetArg::TCSANOW, &before)?;
            super::write_aside("");
            super::exit_interrupted()
        }
    }
}

fn read_hidden(terminal: File, prompt: &str) -> io::Result<String> {
    let term = Term::read_write_pair(terminal.try_clone()?, terminal);
    term.write_str(&super::printable(prompt))?;
    term.read_secure_line()
}
