//! Signals that ask a program to end.

use tokio::signal::unix::{SignalKind, signal};

use host::linux::signals::note_end;

/// Waits for Ctrl-C, or for what else asks a program to end.
pub fn hear_signals() -> std::io::Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    // A shell lets what it starts in the background ignore it, and a server that inherits that cannot be stopped at once: heard
    // here, it is as usual in what is started from here.
    let mut quit = signal(SignalKind::quit())?;
    Ok(async move {
        let came = tokio::select! {
            _ = interrupt.recv() => SignalKind::interrupt(),
            _ = terminate.recv() => SignalKind::terminate(),
            _ = hangup.recv() => SignalKind::hangup(),
            _ = quit.recv() => SignalKind::quit(),
        };
        note_end(came.as_raw_value());
    })
}
