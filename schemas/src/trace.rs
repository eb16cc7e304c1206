//! W3C Trace Context, and which runs are traced.
//!
//! Invariant: a run's trace id is its run id, and a span's id is a hash of its name within the run, so that
//! whoever tells of a span again tells of the same one. Whether a run is traced is decided once, by a hash of its
//! own: the variant bits of a UUID would skew a sampler that compares the id itself.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::id::RunId;

/// Sets the hash that decides about a trace apart from those that make ids.
const SAMPLING_SEED: u64 = 0x7472_6163_6573;
/// As many bytes as a run and the name of a span in it have, mostly.
const NAMED_BYTES: usize = 96;

/// The number of a span within its trace, never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SpanId(u64);

impl SpanId {
    /// The id as OTLP carries it.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A place in a trace: what `traceparent` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceContext {
    /// The trace.
    pub trace: [u8; 16],
    /// The span in it.
    pub span: SpanId,
    /// Whether its spans are recorded.
    pub sampled: bool,
}

/// A text that is no `traceparent`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a traceparent: expected 00-<32 hex digits>-<16 hex digits>-<2 hex digits>")]
pub struct TraceContextError;

impl TraceContext {
    /// The longest text that is read; later versions may append fields.
    const TEXT_MAX_BYTES: usize = 256;
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let trace = Uuid::from_bytes(self.trace);
        f.write_str("00-")?;
        f.write_str(trace.simple().encode_lower(&mut Uuid::encode_buffer()))?;
        write!(f, "-{}-0{}", self.span, u8::from(self.sampled))
    }
}

impl FromStr for TraceContext {
    type Err = TraceContextError;

    fn from_str(text: &str) -> Result<Self, TraceContextError> {
        if text.len() > Self::TEXT_MAX_BYTES {
            return Err(TraceContextError);
        }
        let mut fields = text.split('-');
        let mut hex = |digits: usize| {
            let field = fields.next().ok_or(TraceContextError)?;
            let lower = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
            if field.len() != digits || !field.bytes().all(lower) {
                return Err(TraceContextError);
            }
            u128::from_str_radix(field, 16).map_err(|_| TraceContextError)
        };
        let (version, trace, span, flags) = (hex(2)?, hex(32)?, hex(16)?, hex(2)?);
        let whole = fields.next().is_none() || version > 0;
        let span = u64::try_from(span).map_err(|_| TraceContextError)?;
        if version == 0xff || !whole || trace == 0 || span == 0 {
            return Err(TraceContextError);
        }
        Ok(Self { trace: trace.to_be_bytes(), span: SpanId(span), sampled: flags & 1 == 1 })
    }
}

impl RunId {
    /// The trace of this run.
    #[must_use]
    pub const fn trace_id(&self) -> [u8; 16] {
        *self.0.as_bytes()
    }

    /// The span of this run that is called so.
    #[must_use]
    pub fn span_id(&self, name: impl fmt::Display) -> SpanId {
        let mut text = String::with_capacity(NAMED_BYTES);
        write!(text, "{self}/{name}").expect("a string grows");
        SpanId(xxh3_64(text.as_bytes()).max(1))
    }

    /// The place of the span of this run that is called so.
    #[must_use]
    pub fn trace_context(&self, name: impl fmt::Display, sampled: bool) -> TraceContext {
        TraceContext { trace: self.trace_id(), span: self.span_id(name), sampled }
    }
}

/// Which share of the runs is traced, 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "f64")]
pub struct TraceRatio(f64);

/// A number that is no share.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("trace ratio {0} is not between 0 and 1")]
pub struct TraceRatioError(String);

impl Default for TraceRatio {
    fn default() -> Self {
        Self(1.0)
    }
}

impl TryFrom<f64> for TraceRatio {
    type Error = TraceRatioError;

    fn try_from(ratio: f64) -> Result<Self, TraceRatioError> {
        if (0.0..=1.0).contains(&ratio) {
            Ok(Self(ratio))
        } else {
            Err(TraceRatioError(ratio.to_string()))
        }
    }
}

impl FromStr for TraceRatio {
    type Err = TraceRatioError;

    fn from_str(text: &str) -> Result<Self, TraceRatioError> {
        let wrong = |_| TraceRatioError(text.chars().take(64).collect());
        text.parse::<f64>().map_err(wrong)?.try_into()
    }
}

impl fmt::Display for TraceRatio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl TraceRatio {
    /// Whether a run is traced: the same answer wherever it is asked.
    #[must_use]
    pub fn samples(self, run: RunId) -> bool {
        // The upper 53 bits, as many as an f64 holds exactly.
        let hash = xxh3_64_with_seed(run.0.as_bytes(), SAMPLING_SEED) >> 11;
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
        let share = hash as f64 / (1_u64 << 53) as f64;
        share < self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::id::{Incarnation, RunSeed};
    use crate::name::JobId;
    use crate::time::Timestamp;

    fn run(n: i64) -> RunId {
        let at = Timestamp::from_millis(1_800_000_000_000 + n * 60_000);
        let job: JobId = "billing/nightly".parse().unwrap();
        RunId::derive(at, &job, Incarnation(1), RunSeed::Slot(at))
    }

    #[test]
    fn a_context_has_the_run_as_trace_id_and_reads_back() {
        for sampled in [false, true] {
            let context = run(1).trace_context("fire.0.1", sampled);
            let text = context.to_string();
            assert_eq!(text.len(), 55);
            assert_eq!(text[3..35], run(1).0.simple().to_string());
            assert_eq!(text.parse(), Ok(context));
        }
        assert_ne!(run(1).span_id("a"), run(1).span_id("b"));
        assert_ne!(run(1).span_id("a"), run(2).span_id("a"));
    }

    #[test]
    fn what_is_no_context_is_refused() {
        let good = run(1).trace_context("x", true).to_string();
        assert!(good.replacen("00", "cc", 1).parse::<TraceContext>().is_ok(), "a later version");
        assert!(format!("01{}-more", &good[2..]).parse::<TraceContext>().is_ok());
        for wrong in [
            String::new(),
            good.to_uppercase(),
            format!("{good}-more"),
            good.replacen("00", "ff", 1),
            format!("00-{}-{}-01", "0".repeat(32), "1".repeat(16)),
            format!("00-{}-{}-01", "1".repeat(32), "0".repeat(16)),
            good[..54].to_owned(),
            "é".repeat(28),
            "0".repeat(100_000),
        ] {
            assert!(wrong.parse::<TraceContext>().is_err(), "{wrong:.80}");
        }
    }

    #[test]
    fn a_tenth_of_a_hundred_thousand_runs_is_traced_at_ratio_one_tenth() {
        const RUNS: i64 = 100_000;
        let ratio: TraceRatio = "0.1".parse().unwrap();
        let sampled = (0..RUNS).filter(|n| ratio.samples(run(*n))).count();
        assert!((9_000..=11_000).contains(&sampled), "{sampled}");
        assert!((0..1_000).all(|n| TraceRatio::default().samples(run(n))));
        assert!((0..1_000).all(|n| !"0".parse::<TraceRatio>().unwrap().samples(run(n))));
    }

    #[test]
    fn a_ratio_is_between_nothing_and_all() {
        for wrong in ["-0.1", "1.01", "NaN", "inf", "x", ""] {
            assert!(wrong.parse::<TraceRatio>().is_err(), "{wrong}");
        }
        assert_eq!("0.25".parse::<TraceRatio>().unwrap().to_string(), "0.25");
    }
}
