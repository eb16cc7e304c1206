//! Reading a stream up to its head, as it stood when the reading began.
//!
//! Invariant: a reading ends: at the head, where the reader says so, or when the broker is silent too long.

use std::ops::ControlFlow;
use std::time::Duration;

use cronstream_bus::{
    Bus, Error as BusError, Follow, FollowEvent, FollowOptions, From, StoredMessage,
};
use cronstream_schemas::time::Timestamp;
use tokio::time::timeout;

use crate::error::Error;

/// How long a stream may give nothing while it is read.
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// Hands the last message of each matching subject to `each`, in the order they were stored.
///
/// # Errors
/// When the stream cannot be read, or is replaced meanwhile.
pub(crate) async fn last_of_each(
    bus: &Bus,
    stream: &str,
    filter: &str,
    mut each: impl FnMut(&StoredMessage),
) -> Result<(), Error> {
    read(bus, options(stream, filter, From::LastPerSubject), |message| {
        each(message);
        ControlFlow::Continue(())
    })
    .await
}

/// Hands every matching message to `each`, in the order they were stored, until it breaks.
///
/// # Errors
/// When the stream cannot be read, or is replaced meanwhile.
pub(crate) async fn from_oldest(
    bus: &Bus,
    stream: &str,
    filter: &str,
    each: impl FnMut(&StoredMessage) -> ControlFlow<()>,
) -> Result<(), Error> {
    read(bus, options(stream, filter, From::Oldest), each).await
}

/// Hands every matching message that was stored at or after `at` to `each`, until it breaks.
///
/// # Errors
/// When the stream cannot be read, or is replaced meanwhile.
pub(crate) async fn since(
    bus: &Bus,
    stream: &str,
    (filter, at): (&str, Timestamp),
    each: impl FnMut(&StoredMessage) -> ControlFlow<()>,
) -> Result<(), Error> {
    match first_since(bus, stream, filter, at).await? {
        Some(seq) => read(bus, options(stream, filter, From::Sequence(seq)), each).await,
        None => Ok(()),
    }
}

/// The sequence of the first matching message that was stored at or after `at`, by bisection.
async fn first_since(
    bus: &Bus,
    stream: &str,
    filter: &str,
    at: Timestamp,
) -> Result<Option<u64>, Error> {
    let state = bus.stream_state(stream).await?;
    // Everything before `low` is older than `at`; `found` is the earliest known message that is not.
    let (mut low, mut high, mut found) = (state.first_seq, state.last_seq + 1, None);
    while low < high {
        let middle = low + (high - low) / 2;
        match bus.next_from_leader(stream, middle, Some(filter)).await? {
            Some(message) if message.timestamp_ms < at.as_millis() => low = message.seq + 1,
            Some(message) => {
                found = Some(message.seq);
                high = middle;
            }
            None => high = middle,
        }
    }
    Ok(found)
}

fn options(stream: &str, filter: &str, from: From) -> FollowOptions {
    FollowOptions { stream: stream.to_owned(), filter: Some(filter.to_owned()), from }
}

async fn read(
    bus: &Bus,
    options: FollowOptions,
    each: impl FnMut(&StoredMessage) -> ControlFlow<()>,
) -> Result<(), Error> {
    let stream = options.stream.clone();
    let mut follow = bus.follow(options).await?;
    let outcome = read_through(&mut follow, &stream, each).await;
    follow.close().await;
    outcome
}

async fn read_through(
    follow: &mut Follow,
    stream: &str,
    mut each: impl FnMut(&StoredMessage) -> ControlFlow<()>,
) -> Result<(), Error> {
    let silent = || BusError::TimedOut { what: format!("reading {stream}") };
    loop {
        match timeout(SILENCE_MAX, follow.next()).await.map_err(|_| silent())? {
            Some(FollowEvent::Messages(messages)) => {
                if messages.iter().try_for_each(&mut each).is_break() {
                    return Ok(());
                }
            }
            Some(FollowEvent::CaughtUp { .. }) => return Ok(()),
            Some(FollowEvent::Reset { .. }) => {
                let what = format!("{stream}, which was replaced or cut while it was read,");
                return Err(BusError::Unavailable { what }.into());
            }
            None => return Err(silent().into()),
        }
    }
}
