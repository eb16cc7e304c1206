//! What waits for the network: each method starts a task that ends in one [`Answer`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cronstream_bus::{Append, AppendAnswer, Bus, From, LeaseAnswer, Ttl};
use cronstream_core::partition::PendingDead;
use cronstream_core::turn::{Batch, HistoryRead, Reply, RunAppend};
use cronstream_schemas::event::Event;
use cronstream_schemas::id::{Instance, Partition};
use cronstream_schemas::time::Timestamp;
use cronstream_telemetry::metrics::{BatchEnd, TickerMetrics};
use tokio::sync::mpsc;

use crate::commit::{self, Open};
use crate::decisions;
use crate::history;
use crate::input::{Answer, Fate, Operation, Survey, Which};
use crate::press::{Load, Press, Sent};
use crate::readers::Reader;
use crate::tally::Tally;

/// How long a task waits before it says that an append could not be made.
const APPEND_PAUSE: Duration = Duration::from_secs(1);
/// How long a write to the lease bucket is waited for: a broker that has died never answers.
const CLAIM_WITHIN: Duration = Duration::from_millis(1_500);
/// How long the heads of the streams may take to read.
const SURVEY_WITHIN: Duration = Duration::from_secs(3);
/// How long the loop waits for a stream that could not be followed.
const OPEN_PAUSE: Duration = Duration::from_millis(200);
/// How long a task waits before it says that a stream's head could not be read.
const HEAD_PAUSE: Duration = Duration::from_millis(200);
/// How long the commands' head may take to read before it is asked for again.
const HEAD_WITHIN: Duration = Duration::from_millis(500);
/// How often an append is sent while the stream has no leader.
const APPEND_TRIES: u32 = 5;

/// A write to a key of the lease bucket.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) operation: Operation,
    pub(crate) key: String,
    pub(crate) value: Vec<u8>,
    /// The revision that it replaces, 0 for none.
    pub(crate) revision: u64,
    /// The monotonic time before it is sent.
    pub(crate) sent: Duration,
}

#[derive(Debug, Clone)]
pub(crate) struct Desk {
    pub(crate) bus: Bus,
    pub(crate) press: Press,
    pub(crate) answers: mpsc::Sender<Answer>,
    pub(crate) metrics: TickerMetrics,
}

impl Desk {
    fn spawn(&self, task: impl Future<Output = Answer> + Send + 'static) {
        let answers = self.answers.clone();
        tokio::spawn(async move {
            // The loop is gone when the node ends; nobody needs the answer then.
            answers.send(task.await).await.ok();
        });
    }

    pub(crate) fn claim(&self, write: Write) {
        let bus = self.bus.clone();
        self.spawn(async move {
            let Write { operation, key, value, revision, sent } = write;
            let written = async {
                match operation {
                    Operation::Create => bus.lease_create(&key, value.into()).await,
                    Operation::Renew => bus.lease_update(&key, value.into(), revision).await,
                    Operation::Delete => bus.lease_delete(&key, revision).await,
                }
            };
            let answer = match tokio::time::timeout(CLAIM_WITHIN, written).await {
                Ok(Ok(answer)) => answer,
                Ok(Err(error)) => {
                    tracing::debug!(key, %error, "lease not written");
                    LeaseAnswer::Unknown
                }
                Err(_) => LeaseAnswer::Unknown,
            };
            Answer::Claim { key, sent, operation, answer }
        });
    }

    pub(crate) fn survey(&self, partition: Partition, instance: Instance, after: Duration) {
        let bus = self.bus.clone();
        self.spawn(async move {
            tokio::time::sleep(after).await;
            let survey = tokio::time::timeout(SURVEY_WITHIN, survey(&bus, partition)).await;
            let survey = match survey {
                Ok(Ok(survey)) => Some(survey),
                Ok(Err(error)) => {
                    tracing::warn!(partition = partition.0, %error, "streams not read");
                    None
                }
                Err(_) => None,
            };
            Answer::Survey { partition, instance, survey: survey.map(Box::new) }
        });
    }

    /// Asks the log's leader for its head, for a command that waits until it is read to there.
    pub(crate) fn log_head(&self, partition: Partition, command: u64) {
        let bus = self.bus.clone();
        self.spawn(async move {
            let head = head(&bus, &bus.names().log, SURVEY_WITHIN).await;
            Answer::LogHead { partition, command, head }
        });
    }

    /// Asks the commands' leader for their head.
    pub(crate) fn commands_head(&self, question: u64) {
        let bus = self.bus.clone();
        self.spawn(async move {
            let head = head(&bus, &bus.names().commands, HEAD_WITHIN).await;
            Answer::CommandsHead { question, head }
        });
    }

    /// Stores a batch. Its messages are made here and not by the loop, which decides for the next partition meanwhile;
    /// and so are its log lines, before the loop hears that it is stored.
    pub(crate) fn commit(&self, instance: Instance, batch: &Arc<Batch>) {
        let (bus, answers) = (self.bus.clone(), self.answers.clone());
        let (press, batch) = (self.press.clone(), Arc::clone(batch));
        let (metrics, began) = (self.metrics.clone(), Instant::now());
        self.spawn(async move {
            let (mine, closing) = (&batch.cursor, batch.alone.as_ref());
            let partition = mine.partition;
            let stuck = move |why| {
                // A loop too busy to hear it will hear the next one.
                answers
                    .try_send(Answer::Batch { partition, instance, fate: Fate::Stuck { why } })
                    .ok();
            };
            let prefix = bus.names().prefix();
            let sent = match closing {
                Some(_) => press.send(Load::Alone(commit::messages(prefix, &batch))).await,
                None => match commit::prepared(prefix, &batch) {
                    Ok(prepared) => press.send(Load::Whole(prepared)).await,
                    Err(error) => Err(Open::not_sent(&error)),
                },
            };
            let fate = match (sent, closing) {
                (Ok(Sent::Whole(seq)), _) => Fate::Stored { seq },
                (Ok(Sent::Alone(seq)), _) => Fate::StoredAlone { seq },
                (Err(open), Some(mine)) if open.alone => {
                    let expected = batch.cursor_expected;
                    let closing = commit::closing(prefix, expected, mine);
                    match commit::settle(&bus, (closing, mine), open, commit::ABANDON_AFTER, stuck)
                        .await
                    {
                        Fate::Stored { seq } => Fate::Closed { seq },
                        fate => fate,
                    }
                }
                (Err(open), _) => {
                    let batch = (commit::messages(prefix, &batch), mine);
                    commit::settle(&bus, batch, open, commit::ABANDON_AFTER, stuck).await
                }
            };
            match fate {
                Fate::Stored { .. } | Fate::StoredAlone { .. } => {
                    metrics.batch(partition, BatchEnd::Stored, began.elapsed());
                    Tally::of(&batch).count(&metrics);
                    decisions::log(&batch);
                }
                Fate::Fenced => metrics.batch(partition, BatchEnd::Refused, began.elapsed()),
                Fate::Closed { .. } | Fate::Stuck { .. } | Fate::Abandoned { .. } => {}
            }
            Answer::Batch { partition, instance, fate }
        });
    }

    pub(crate) fn append(&self, partition: Partition, append: RunAppend, now: Timestamp) {
        let bus = self.bus.clone();
        self.spawn(async move {
            let names = bus.names();
            let message = Append {
                subject: names.prefix().run(&append.key),
                headers: Vec::new(),
                payload: append.event.encode().into(),
                ttl: Some(Ttl::at_least(append.keep_until.since(now))),
                msg_id: None,
                expected_last_seq: append.expected_seq,
            };
            send(&bus, &message).await;
            let last = match bus.last_from_leader(&names.runs, &message.subject).await {
                Ok(last) => last.map(Box::new),
                Err(_) => None,
            };
            if last.is_none() {
                tokio::time::sleep(APPEND_PAUSE).await;
            }
            Answer::Appended { partition, append: Box::new(append), last }
        });
    }

    pub(crate) fn dead(&self, partition: Partition, seq: u64, dead: &PendingDead) {
        let bus = self.bus.clone();
        let message = Append {
            subject: bus.names().prefix().dead(&dead.key),
            headers: Vec::new(),
            payload: serde_json::to_vec(&dead.letter).unwrap_or_default().into(),
            ttl: None,
            msg_id: None,
            expected_last_seq: 0,
        };
        self.spawn(async move {
            let answer = send(&bus, &message).await;
            let written =
                matches!(answer, Some(AppendAnswer::Stored { .. } | AppendAnswer::Conflict));
            if !written {
                tracing::warn!(subject = message.subject, ?answer, "dead letter not written");
                tokio::time::sleep(APPEND_PAUSE).await;
            }
            Answer::Dead { partition, seq, written }
        });
    }

    /// Reads the history that a command waits for.
    pub(crate) fn history(&self, partition: Partition, read: HistoryRead) {
        let bus = self.bus.clone();
        self.spawn(async move {
            let history = history::read(&bus, &read).await;
            Answer::History { partition, command: read.command, history }
        });
    }

    /// Reads the broker's clock, and counts the dead letters on the way.
    pub(crate) fn sample(&self, stopwatch: impl Fn() -> Duration + Send + 'static) {
        let (bus, answers) = (self.bus.clone(), self.answers.clone());
        let metrics = self.metrics.clone();
        tokio::spawn(async move {
            let sent = stopwatch();
            if let Ok(state) = bus.stream_state(&bus.names().log).await {
                let (broker, received) = (Timestamp::from(state.now), stopwatch());
                answers.send(Answer::Clock { broker, sent, received }).await.ok();
                // Only a figure: the next sample has a newer one.
                if let Ok(dead) = bus.stream_state(&bus.names().dead).await {
                    metrics.dead_letters(dead.messages);
                }
            }
        });
    }

    /// Follows a stream from a place.
    pub(crate) fn open(&self, which: Which, from: From) {
        let bus = self.bus.clone();
        self.spawn(async move {
            let names = bus.names();
            let stream = match which {
                Which::Runs => &names.runs,
                Which::Commands { .. } => &names.commands,
            };
            let reader = Reader::open(&bus, stream, from).await;
            if let Err(error) = &reader {
                tracing::warn!(stream, %error, "stream not followed");
                tokio::time::sleep(OPEN_PAUSE).await;
            }
            Answer::Opened { which, reader: reader.ok().map(Box::new) }
        });
    }

    pub(crate) fn ensure_bucket(&self, replicas: u8, ttl: Duration) {
        let bus = self.bus.clone();
        self.spawn(async move {
            let change = bus.ensure_leases(replicas, ttl).await;
            let recreated = matches!(change, Ok(cronstream_bus::Change::Created));
            if recreated {
                tracing::warn!("the lease bucket was gone and has been made again");
            }
            Answer::Bucket { recreated }
        });
    }

    /// Tells senders what came of their commands; one that does not listen loses nothing but the answer.
    pub(crate) fn reply(&self, replies: Vec<Reply>) {
        if replies.is_empty() {
            return;
        }
        let bus = self.bus.clone();
        tokio::spawn(async move {
            for Reply { inbox, verdict } in &replies {
                let body = serde_json::to_vec(verdict).unwrap_or_default();
                if let Err(error) = bus.publish_core(inbox, &Vec::new(), Bytes::from(body)).await {
                    tracing::info!(command = verdict.command, %error, "verdict not sent");
                }
            }
        });
    }
}

/// A stream's head, or `None` when it must be asked for again.
async fn head(bus: &Bus, stream: &str, within: Duration) -> Option<u64> {
    match tokio::time::timeout(within, bus.stream_state(stream)).await {
        Ok(Ok(state)) => Some(state.last_seq),
        Ok(Err(error)) => {
            tracing::warn!(stream, %error, "head not read");
            tokio::time::sleep(HEAD_PAUSE).await;
            None
        }
        Err(_) => None,
    }
}

async fn send(bus: &Bus, message: &Append) -> Option<AppendAnswer> {
    for _ in 0..APPEND_TRIES {
        match bus.append(message).await {
            Ok(AppendAnswer::Retry { .. }) => tokio::time::sleep(APPEND_PAUSE / 5).await,
            Ok(answer) => return Some(answer),
            Err(error) => {
                tracing::warn!(subject = message.subject, %error, "event not sent");
                return None;
            }
        }
    }
    None
}

async fn survey(bus: &Bus, partition: Partition) -> Result<Survey, cronstream_bus::Error> {
    let names = bus.names();
    let runs = bus.stream_state(&names.runs).await?;
    let commands = bus.stream_state(&names.commands).await?;
    let oldest = match commands.messages {
        0 => None,
        _ => bus.by_seq(&names.commands, commands.first_seq).await?,
    };
    let log = bus.stream_state(&names.log).await?;
    let cursor = bus.last_from_leader(&names.log, &names.prefix().cursor(partition)).await?;
    let oldest_command = oldest.map(|message| Timestamp::from_millis(message.timestamp_ms));
    Ok(Survey { cursor, log, runs, commands, oldest_command })
}
