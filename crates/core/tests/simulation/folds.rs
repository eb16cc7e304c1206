//! One state from one log, however it is folded: whole, in parts, twice, or from the last event of each shard.

use std::fmt::Write;

use cronstream_core::partition::Partition;
use cronstream_core::position;
use cronstream_schemas::id::Partition as Number;
use cronstream_schemas::time::Timestamp;

use crate::world::{MAX_CLOCK_ERROR, World};

/// Whether every way of folding what the streams hold gives the leader's live state.
pub(crate) fn are_equal(world: &World, leader: &Partition) -> Result<(), String> {
    let live = text(leader, world.now);
    let ways: [(&str, Partition); 5] = [
        ("whole", fold(world, 1, false, false)),
        ("in two parts", fold(world, 2, false, false)),
        ("in seven parts", fold(world, 7, false, false)),
        ("with every event twice", fold(world, 2, true, false)),
        ("from the last event of each shard", fold(world, 1, false, true)),
    ];
    for (way, partition) in ways {
        let folded = text(&partition, world.now);
        if folded != live {
            return Err(format!("folded {way}:\n{folded}\nthe leader:\n{live}"));
        }
    }
    Ok(())
}

fn fold(world: &World, parts: usize, twice: bool, last_only: bool) -> Partition {
    let mut partition = Partition::new(Number(0));
    let log: Vec<_> = world.log.visible(0, world.now).collect();
    let runs: Vec<_> = if last_only {
        world.runs.last_per_subject(world.now)
    } else {
        world.runs.visible(0, world.now).collect()
    };
    let part = |len: usize, n: usize| len * n / parts..len * (n + 1) / parts;
    for n in 0..parts {
        for message in &runs[part(runs.len(), n)] {
            for _ in 0..=usize::from(twice) {
                partition.apply_run(message.seq, message.at, &message.key, &message.event);
            }
        }
        for message in &log[part(log.len(), n)] {
            for _ in 0..=usize::from(twice) {
                partition.apply_log(message.seq, &message.event);
            }
        }
    }
    partition
}

/// What of a fold decides the future.
fn text(partition: &Partition, now: Timestamp) -> String {
    let mut text = format!("{:?} {}\n", partition.cursor(), partition.cursor_seq());
    let mut jobs: Vec<_> = partition.jobs().collect();
    jobs.sort_by_key(|(id, _)| *id);
    for (id, job) in jobs {
        let through = partition.cursor().map_or(Timestamp::MIN, |cursor| {
            position::decided_through(&cursor.position, id).max(job.decided_through)
        });
        writeln!(text, "{id} {through} {:?}", job.state).expect("a String takes all");
    }
    for held in partition.held() {
        writeln!(text, "{held:?}").expect("a String takes all");
    }
    // A leader whose clock is ahead forgets a shard a little before its records vanish.
    let kept = now.plus(MAX_CLOCK_ERROR);
    let mut shards: Vec<_> =
        partition.shards().filter(|shard| shard.fired.keep_until > kept).collect();
    shards.sort_by_key(|shard| shard.fired.shard_id());
    for shard in shards {
        writeln!(text, "{} {:?}", shard.fired.id(), shard.last).expect("a String takes all");
    }
    text
}
