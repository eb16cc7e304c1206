//! Signals: the first SIGTERM or Ctrl-C asks to stop, the second ends the process at once.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// What a shell reports for a process that Ctrl-C ended.
const EXIT_INTERRUPTED: i32 = 130;

/// A token that the first signal cancels.
///
/// # Errors
/// When the handlers cannot be installed.
pub(crate) fn on_signal() -> io::Result<CancellationToken> {
    let mut signals = Signals {
        interrupt: signal(SignalKind::interrupt())?,
        terminate: signal(SignalKind::terminate())?,
    };
    let stop = CancellationToken::new();
    let cancelled = stop.clone();
    tokio::spawn(async move {
        signals.next().await;
        tracing::info!("stopping; a second signal ends at once");
        cancelled.cancel();
        signals.next().await;
        exit_at_once();
    });
    Ok(stop)
}

/// Cancels the token when the process that started this one is gone.
pub(crate) fn with_parent(stop: &CancellationToken) {
    let stop = stop.clone();
    tokio::spawn(async move {
        parent_gone().await;
        tracing::info!("stopping: the process that started this one is gone");
        stop.cancel();
    });
}

/// Waits for the end of standard input, which the process that started this one holds open.
pub(crate) async fn parent_gone() {
    let (gone, wait) = tokio::sync::oneshot::channel();
    // A thread of its own: one of the runtime's would be waited for at the end.
    std::thread::spawn(move || {
        // However the reading ends, nobody holds the other side any more.
        io::copy(&mut io::stdin().lock(), &mut io::sink()).ok();
        gone.send(()).ok();
    });
    wait.await.ok();
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[expect(clippy::exit, reason = "the operator asked twice; nothing may delay it")]
fn exit_at_once() -> ! {
    std::process::exit(EXIT_INTERRUPTED)
}
