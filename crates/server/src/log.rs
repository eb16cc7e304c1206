//! The end of a server's log, for error messages.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::Path,
};

/// How much of a log an error message shows.
const TAIL_MAX: u64 = 4 * 1024;

/// Returns the last lines that were written to `path` after `since` bytes.
pub(crate) fn tail(path: &Path, since: u64) -> String {
    read_tail(path, since)
        .unwrap_or_else(|error| format!("(cannot read {}: {error})", path.display()))
}

/// Returns how long the file is now; nothing if there is none.
pub(crate) fn length(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |meta| meta.len())
}

fn read_tail(path: &Path, since: u64) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let end = file.metadata()?.len();
    // A rotated log is shorter than it was.
    let since = if since > end { 0 } else { since };
    let start = since.max(end.saturating_sub(TAIL_MAX));
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(TAIL_MAX).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let whole =
        if start > since { text.split_once('\n').map_or("", |(_, rest)| rest) } else { &text };
    Ok(whole.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_bounded_and_starts_with_a_whole_line_of_this_run() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        assert_eq!(length(&path), 0);
        std::fs::write(&path, "old run\nnew run\n").unwrap();
        assert_eq!(tail(&path, 8), "new run");
        assert_eq!(tail(&path, 1_000), "old run\nnew run");
        std::fs::write(&path, "0123456789\n".repeat(2_000)).unwrap();
        let tail = tail(&path, 0);
        assert!(tail.len() <= usize::try_from(TAIL_MAX).unwrap());
        assert!(tail.lines().all(|line| line == "0123456789"));
    }
}
