//! `dead`: shards that failed for good, newest first.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use cronstream_schemas::event::DeadLetter;
use cronstream_schemas::time::Timestamp;

use crate::args;
use crate::error::Error;
use crate::follow;
use crate::jobs;
use crate::session::Session;
use crate::words;

pub(crate) async fn dead(session: &Session, wanted: &args::Dead) -> Result<(), Error> {
    let bus = session.bus().await?;
    let prefix = bus.names().prefix();
    let filter = match &wanted.job {
        Some(job) => format!("{prefix}.dead.*.{}.{}.>", job.namespace, job.name),
        None => format!("{prefix}.dead.>"),
    };
    let count = usize::try_from(wanted.number).unwrap_or(usize::MAX);
    let mut letters: VecDeque<DeadLetter> = VecDeque::new();
    follow::since(&bus, &bus.names().dead, (&filter, Timestamp::MIN), |message| {
        match serde_json::from_slice(&message.payload) {
            Ok(letter) => letters.push_front(letter),
            Err(error) => tracing::warn!(message.subject, message.seq, %error, "not a dead letter"),
        }
        letters.truncate(count);
        ControlFlow::Continue(())
    })
    .await?;
    if let Some(job) = wanted.job.as_ref().filter(|_| letters.is_empty()) {
        jobs::if_readable(&bus, job).await?;
    }
    let header = ["FAILED AT", "JOB", "RUN", "SHARD", "ATTEMPTS", "KIND", "MESSAGE"];
    session.out.rows(header, letters.make_contiguous(), cells)?;
    Ok(())
}

fn cells(letter: &DeadLetter) -> [String; 7] {
    let DeadLetter { fired, attempts, failure, at } = letter;
    [
        at.to_string(),
        fired.job.to_string(),
        fired.run.to_string(),
        fired.shard.to_string(),
        attempts.to_string(),
        words::failure_kind(failure.kind).to_owned(),
        failure.message.clone(),
    ]
}
