//! Spans as the bytes that they are in a message, and how many there are.
//!
//! Invariant: the bytes are whole fields of a `ScopeSpans`, one for each span, so that what is joined or cut between
//! them is right again.

use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use prost::bytes::Buf;

/// Spans in a batch, at most.
pub(crate) const BATCH_SPANS: usize = 512;
/// Bytes of a batch's spans, at most.
pub(crate) const BATCH_BYTES: usize = 512 * 1024;
/// What stands before the `spans` of a `ScopeSpans`: field 2, of a length.
pub(crate) const SPANS_FIELD: u8 = 2 << 3 | 2;

/// Spans that are written already.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Encoded {
    pub(crate) bytes: Vec<u8>,
    pub(crate) count: usize,
}

impl Encoded {
    /// No spans, and room for so many bytes of them.
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), count: 0 }
    }

    /// How many there are.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Writes a span of the SDK behind the others.
    pub(crate) fn push(&mut self, span: &Span) {
        self.bytes.push(SPANS_FIELD);
        span.encode_length_delimited(&mut self.bytes).expect("a vector grows");
        self.count += 1;
    }

    /// Takes all of them out, and keeps the room.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
    }

    /// Whether both together are a batch.
    pub(crate) const fn takes(&self, more: &Self) -> bool {
        self.count + more.count <= BATCH_SPANS && self.bytes.len() + more.bytes.len() <= BATCH_BYTES
    }

    /// Puts others behind these.
    pub(crate) fn append(&mut self, more: &Self) {
        self.bytes.extend_from_slice(&more.bytes);
        self.count += more.count;
    }

    /// Each span by itself.
    fn each(&self) -> impl Iterator<Item = Self> {
        let mut rest = self.bytes.as_slice();
        std::iter::from_fn(move || {
            let mut body = rest.get(1..)?;
            let length = prost::decode_length_delimiter(&mut body).expect("written here");
            let whole = rest.len() - body.remaining() + length;
            let (bytes, behind) = rest.split_at(whole);
            rest = behind;
            Some(Self { bytes: bytes.to_vec(), count: 1 })
        })
    }
}

/// Joins and cuts spans into batches; one that is too large by itself makes a batch of its own, which the broker
/// judges.
pub(crate) fn batches(spans: impl IntoIterator<Item = Encoded>) -> Vec<Encoded> {
    let mut batches: Vec<Encoded> = Vec::new();
    let mut add = |spans: Encoded| match batches.last_mut() {
        Some(batch) if batch.takes(&spans) => batch.append(&spans),
        Some(_) | None => batches.push(spans),
    };
    for spans in spans.into_iter().filter(|spans| spans.count > 0) {
        if Encoded::default().takes(&spans) {
            add(spans);
        } else {
            spans.each().for_each(&mut add);
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spans with names of these lengths.
    fn spans(bytes: &[usize]) -> Encoded {
        let mut spans = Encoded::default();
        for bytes in bytes {
            spans.push(&Span { name: "x".repeat(*bytes), ..Span::default() });
        }
        spans
    }

    #[test]
    fn a_batch_is_bounded_in_spans_and_bytes_however_spans_come() {
        let (quarter, too_large) = (BATCH_BYTES / 4, 2 * BATCH_BYTES);
        for (given, expected) in [
            (vec![], vec![]),
            (vec![spans(&[]), spans(&[1])], vec![1]),
            (vec![spans(&[1; 2 * BATCH_SPANS + 1])], vec![BATCH_SPANS, BATCH_SPANS, 1]),
            (vec![spans(&[1; 300]), spans(&[1; 200]), spans(&[1; 20])], vec![500, 20]),
            ((0..BATCH_SPANS + 1).map(|_| spans(&[1])).collect(), vec![BATCH_SPANS, 1]),
            (vec![spans(&[quarter; 5])], vec![3, 2]),
            (vec![spans(&[1]), spans(&[too_large]), spans(&[1])], vec![1, 1, 1]),
            (vec![spans(&[1, too_large, 1])], vec![1, 1, 1]),
        ] {
            let cut = batches(given);
            assert_eq!(cut.iter().map(Encoded::count).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn what_is_cut_and_joined_again_is_the_same() {
        let whole = spans(&[0, 1, 127, 128, 300, 20_000]);
        let mut again = Encoded::default();
        whole.each().for_each(|one| again.append(&one));
        assert_eq!(again, whole);
    }
}
