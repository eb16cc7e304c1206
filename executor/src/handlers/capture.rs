//! The last bytes of what a process prints.
//!
//! Invariant: whatever a process prints is read, so it never blocks on a full pipe, and at most
//! twice [`KEPT_BYTES`] of it are in memory.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};

/// How many of a stream's last bytes are kept.
pub(super) const KEPT_BYTES: usize = 16 * 1024;
const READ_BYTES: usize = 8 * 1024;

/// The end of one stream, shared between its reader and whoever wants to see it before the reader ends.
#[derive(Debug, Clone, Default)]
pub(super) struct Capture(Arc<Mutex<Tail>>);

#[derive(Debug, Default)]
struct Tail {
    bytes: Vec<u8>,
    total: u64,
}

impl Tail {
    fn push(&mut self, more: &[u8]) {
        self.total += more.len() as u64;
        self.bytes.extend_from_slice(more);
        if self.bytes.len() > 2 * KEPT_BYTES - READ_BYTES {
            let surplus = self.bytes.len() - KEPT_BYTES;
            self.bytes.drain(..surplus);
        }
    }

    /// The kept text, from a whole character on, and how many bytes are not in it.
    fn text(&self) -> (String, u64) {
        let from = self.bytes.len().saturating_sub(KEPT_BYTES);
        let kept = &self.bytes[from..];
        let cut = self.total > kept.len() as u64;
        let partial =
            if cut { kept.iter().take(3).take_while(|b| **b & 0xC0 == 0x80).count() } else { 0 };
        let kept = &kept[partial..];
        (String::from_utf8_lossy(kept).into_owned(), self.total - kept.len() as u64)
    }
}

impl Capture {
    /// Reads a stream to its end.
    pub(super) async fn read(self, mut stream: impl AsyncRead + Unpin) {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            match stream.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(count) => self.lock().push(&buffer[..count]),
            }
        }
    }

    /// What has been kept so far, and how many bytes are not in it.
    pub(super) fn text(&self) -> (String, u64) {
        self.lock().text()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Tail> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_end_is_kept_and_the_rest_is_counted() {
        let capture = Capture::default();
        let printed: Vec<u8> =
            (0..100_000_u32).flat_map(|n| format!("{n}\n").into_bytes()).collect();
        capture.clone().read(&printed[..]).await;
        let (text, dropped) = capture.text();
        assert_eq!(text.len(), KEPT_BYTES);
        assert!(text.ends_with("\n99998\n99999\n"));
        assert_eq!(dropped, printed.len() as u64 - KEPT_BYTES as u64);
    }

    #[tokio::test]
    async fn a_short_stream_is_kept_whole_and_bad_utf8_is_shown() {
        let capture = Capture::default();
        capture.clone().read(&b"\x80caf\xc3\xa9\xff"[..]).await;
        assert_eq!(capture.text(), ("\u{fffd}caf\u{e9}\u{fffd}".to_owned(), 0));
    }

    #[tokio::test]
    async fn a_cut_falls_between_characters() {
        let capture = Capture::default();
        let printed = format!("a{}", "\u{e9}".repeat(KEPT_BYTES / 2 + 1)) + "b";
        capture.clone().read(printed.as_bytes()).await;
        let (text, dropped) = capture.text();
        assert!(!text.contains('\u{fffd}'));
        assert_eq!(text.len() as u64 + dropped, printed.len() as u64);
    }
}
