//! Reading what a user names, of a bounded size whatever it is: a file, a pipe, a device without end.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

/// Reads a text of at most `max` bytes.
///
/// # Errors
/// When it has more, is not UTF-8, or cannot be read.
pub(crate) fn read_text(from: impl Read, max: u64) -> Result<String> {
    let mut text = String::new();
    let size = from.take(max + 1).read_to_string(&mut text)?;
    if size as u64 > max {
        let message = format!("it has more than {max} bytes");
        return Err(Error::new(ErrorKind::FileTooLarge, message));
    }
    Ok(text)
}

/// Reads a file of at most `max` bytes.
///
/// # Errors
/// As [`read_text`], and when it cannot be opened.
pub(crate) fn read_file(path: &Path, max: u64) -> Result<String> {
    read_text(File::open(path)?, max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_refused_and_what_fits_is_read_whole() {
        let endless = read_text(std::io::repeat(b'x'), 1_000).unwrap_err();
        assert_eq!(endless.to_string(), "it has more than 1000 bytes");
        assert_eq!(read_text(&b"abc"[..], 3).unwrap(), "abc");
        assert!(read_text(&b"abcd"[..], 3).is_err());
        assert!(read_file(Path::new("/dev/zero"), 4_096).is_err());
    }
}
