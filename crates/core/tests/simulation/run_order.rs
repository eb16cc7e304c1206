//! The order of a shard's run events, checked on every one that is stored.

use cronstream_schemas::event::{FailureKind, Place, RunEvent};
use cronstream_schemas::id::Instance;
use cronstream_schemas::time::Timestamp;

use crate::checker::ShardHistory;
use crate::world::MAX_CLOCK_ERROR;

/// What is wrong with an event behind `last`.
pub(crate) fn fault(
    shard: &ShardHistory,
    at: Timestamp,
    last: Option<&RunEvent>,
    event: &RunEvent,
) -> Option<&'static str> {
    let place = event.place();
    let before = last.map_or(Place::default(), RunEvent::place);
    let max = shard.fired.retry.max_attempts;
    let by_leader =
        matches!(event, RunEvent::Expired(_) | RunEvent::Cancelled(_) | RunEvent::Lost(_));
    if by_leader && at.plus(MAX_CLOCK_ERROR) >= shard.fired.keep_until {
        return None; // No ticker worked for the whole retention: what there was has vanished.
    }
    if shard.ended {
        return Some("the shard had ended");
    }
    match event {
        RunEvent::Started(_) => {
            let delivery = if before.fire_no == place.fire_no { before.delivery + 1 } else { 1 };
            let failed = matches!(last, Some(RunEvent::AttemptFailed(_)));
            match () {
                () if place.fire_no > shard.fires => Some("the fire is not in the log"),
                () if place.fire_no < before.fire_no => Some("a later fire had begun"),
                () if failed && place.fire_no == before.fire_no => Some("its fire had failed"),
                () if place.attempt != before.attempt + 1 => Some("the attempt is miscounted"),
                () if place.attempt > max => Some("too many attempts"),
                () if place.delivery != delivery => Some("the delivery is miscounted"),
                () => None,
            }
        }
        RunEvent::Failed(failed) if failed.failure.kind == FailureKind::Crashed => {
            let crashed = matches!(last, Some(RunEvent::Started(_))) && before.attempt == max;
            (!crashed).then_some("no last attempt had crashed")
        }
        RunEvent::Interrupted(own) => {
            let mine = matches!(last, Some(RunEvent::Started(s)) if s.executor == own.executor);
            let right = mine && place.attempt + 1 == before.attempt;
            (!right).then_some("it does not follow its own start")
        }
        RunEvent::AttemptFailed(own) => {
            let mine = matches!(last, Some(RunEvent::Started(s)) if s.executor == own.executor);
            let right = mine && place == before && place.attempt < max;
            (!right).then_some("it does not follow its own start, or was the last attempt")
        }
        RunEvent::Succeeded(own) => follows(last, &own.executor.instance, place == before),
        RunEvent::Failed(own) => follows(last, &own.executor.instance, place == before),
        RunEvent::Expired(_) => last.is_some().then_some("it had started"),
        RunEvent::Cancelled(_) | RunEvent::Lost(_) => {
            (place != before).then_some("it does not repeat the place before it")
        }
    }
}

fn follows(last: Option<&RunEvent>, instance: &Instance, same: bool) -> Option<&'static str> {
    let mine = matches!(last, Some(RunEvent::Started(s)) if s.executor.instance == *instance);
    (!(mine && same)).then_some("it does not follow its own start")
}
