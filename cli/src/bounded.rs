//! Reading what a user names, of a bounded size whatever it is: a file, a pipe, a device without end.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

/// Reads at most `max` bytes.
///
/// # Errors
/// When there are more, or they cannot be read.
pub(crate) fn read_bytes(from: impl Read, max: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let size = from.take(max + 1).read_to_end(&mut bytes)?;
    if size as u64 > max {
        let message = format!("it has more than {max} bytes");
        return Err(Error::new(ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// Reads a text of at most `max` bytes.
///
/// # Errors
/// As [`read_bytes`], and when it is not UTF-8.
pub(crate) fn read_text(from: impl Read, max: u64) -> Result<String> {
    String::from_utf8(read_bytes(from, max)?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Error::new(ErrorKind::InvalidData, format!("byte {at} is not UTF-8"))
    })
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
