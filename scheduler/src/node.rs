//! The ticker's loop: it owns all state, takes one input at a time, and then acts on what is due.

use std::time::Duration;

use cronstream_bus::{Bus, FollowEvent, From, LeaseWatch, Releases, ServiceInfo, Serving};
use cronstream_core::clock::{Guard, Verdict};
use cronstream_core::lease;
use cronstream_core::live::Bounds;
use cronstream_core::turn::Settings;
use cronstream_schemas::event::{Decoded, Event, LogEvent};
use cronstream_schemas::fault::cut;
use cronstream_schemas::id::{Instance, PARTITIONS_MAX, Partition};
use cronstream_schemas::time::Timestamp;
use cronstream_telemetry::Spans;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::claims::{Claims, Moment};
use crate::clock::Clock;
use crate::desk::Desk;
use crate::echo::Echo;
use crate::hearing::Hearing;
use crate::input::{Answer, INPUTS_MAX, Input};
use crate::press::Press;
use crate::readers::Reader;
use crate::report;
use crate::seat::{Seat, new_instance};
use crate::{Error, Options, STOP_WITHIN};

/// The longest sleep: clocks may jump meanwhile.
const SLEEP_MAX: Duration = Duration::from_secs(1);
/// The shortest sleep when what is due could not be done.
const SLEEP_MIN: Duration = Duration::from_millis(50);
/// How often the status is made anew.
const REPORT_EVERY: Duration = Duration::from_millis(200);
/// How often the broker's clock is read; a sample lasts for 10 s.
const SAMPLE_EVERY: Duration = Duration::from_secs(4);

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) options: Options,
    pub(crate) settings: Settings,
    pub(crate) instance: Instance,
    pub(crate) clock: Clock,
    pub(crate) guard: Guard,
    pub(crate) seats: Vec<Seat>,
    pub(crate) claims: Claims,
    pub(crate) desk: Desk,
    pub(crate) spans: Spans,
    pub(crate) log: Reader,
    pub(crate) runs: Reader,
    pub(crate) commands: Option<Reader>,
    pub(crate) log_read: bool,
    /// When the other holder of this node's name was seen first, and at which revision.
    pub(crate) rival: Option<(Duration, u64)>,
    /// Whether the name has been this node's.
    pub(crate) named: bool,
    pub(crate) stopping: bool,
    /// Whether the clock was told to be off.
    pub(crate) clock_off: bool,
    pub(crate) replicas: u8,
    pub(crate) bucket_asked: Duration,
    pub(crate) log_created: Option<Timestamp>,
    /// Behind which sequence the commands are about to be followed.
    pub(crate) commands_opening: Option<u64>,
    pub(crate) echo: Echo,
    pub(crate) hearing: Hearing,
    /// How often the connection was made.
    pub(crate) connects: watch::Receiver<u64>,
    sampled: Duration,
    reported: Duration,
    wake_at: Option<Timestamp>,
    /// The wall clock of the last turns.
    turned_at: Timestamp,
    answers: mpsc::Receiver<Answer>,
    watch: LeaseWatch,
    releases: Releases,
    status: watch::Sender<Vec<u8>>,
    _serving: Serving,
}

impl Node {
    /// Reads the installation and what the runs stream tells, and begins to answer as a service.
    pub(crate) async fn start(
        bus: Bus,
        options: Options,
        spans: Spans,
        stop: CancellationToken,
    ) -> Result<Self, Error> {
        let topology = bus.check().await?;
        let log_created = Some(bus.stream_state(&bus.names().log).await?.created.into());
        let partitions = partitions(&bus, topology.meta.as_deref())?;
        let names = bus.names().clone();
        let (answer_tx, answers) = mpsc::channel(INPUTS_MAX);
        let (status, status_rx) = watch::channel(Vec::new());
        let info = ServiceInfo {
            role: "ticker".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            metadata: [("node".to_owned(), options.node.to_string())].into(),
        };
        let serving = bus.serve(info, move || status_rx.borrow().clone().into()).await?;
        let runs = Reader::open(&bus, &names.runs, From::LastPerSubject).await?;
        let mut node = Self {
            settings: Settings {
                prefix: names.prefix().clone(),
                hold: options.hold,
                max_clock_error: options.max_clock_error,
                cursor_refresh: options.cursor_refresh,
                trace_ratio: options.trace_ratio,
                bounds: Bounds::default(),
            },
            instance: new_instance(),
            clock: Clock::new(options.clock.clone()),
            guard: Guard::new(options.max_clock_error),
            seats: (0..partitions).map(|n| Seat::new(Partition(n))).collect(),
            claims: Claims::new(options.node.clone(), topology.lease_ttl),
            log: Reader::open(&bus, &names.log, From::Oldest).await?,
            runs,
            commands: None,
            log_read: false,
            rival: None,
            named: false,
            stopping: false,
            clock_off: false,
            replicas: topology.replicas,
            bucket_asked: Duration::ZERO,
            log_created,
            commands_opening: None,
            echo: Echo::default(),
            hearing: Hearing::default(),
            connects: bus.connects(),
            reported: Duration::ZERO,
            sampled: Duration::ZERO,
            wake_at: None,
            turned_at: Timestamp::MIN,
            answers,
            watch: bus.watch_leases(),
            releases: bus.releases().await?,
            status,
            _serving: serving,
            spans,
            desk: Desk {
                press: Press::start(bus.clone()),
                bus,
                answers: answer_tx,
                metrics: options.metrics.clone(),
            },
            options,
        };
        node.status.send_replace(node.encoded_status());
        node.read_runs(&stop).await?;
        Ok(node)
    }

    /// Run events first: what has ended need not be kept while the log is read.
    async fn read_runs(&mut self, stop: &CancellationToken) -> Result<(), Error> {
        loop {
            let event = tokio::select! {
                event = self.runs.next() => event.ok_or(Error::Closed("the runs stream"))?,
                () = stop.cancelled() => return Ok(()),
            };
            let caught_up = matches!(event, FollowEvent::CaughtUp { .. });
            self.read_run_events(event);
            if caught_up {
                return Ok(());
            }
        }
    }

    /// Takes inputs until it is told to stop and has given everything up.
    pub(crate) async fn run(mut self, stop: CancellationToken) -> Result<(), Error> {
        let mut stopped_at = None;
        loop {
            let input = self.next_input(&stop).await?;
            self.take(input);
            self.act()?;
            if self.stopping {
                let since = *stopped_at.get_or_insert(self.clock.monotonic());
                let late = self.clock.monotonic().saturating_sub(since) > STOP_WITHIN;
                if late || self.claims.is_idle() {
                    tracing::info!(node = %self.options.node, late, "ticker stopped");
                    return Ok(());
                }
            }
        }
    }

    async fn next_input(&mut self, stop: &CancellationToken) -> Result<Input, Error> {
        let sleep = self.sleep();
        self.hearing.rest(self.clock.monotonic(), sleep);
        let full = self.seats.iter().any(|seat| seat.partition.is_full());
        let log_later = self.reads_log_later();
        let commands = async {
            match &mut self.commands {
                Some(reader) if !full => reader.next().await,
                Some(_) | None => std::future::pending().await,
            }
        };
        let event = tokio::select! {
            () = stop.cancelled(), if !self.stopping => Some(Input::Stop),
            answer = self.answers.recv() => answer.map(Input::Answer),
            event = self.watch.next() => event.map(Input::Lease),
            event = self.log.next(), if !log_later => event.map(Input::Log),
            event = self.runs.next() => event.map(Input::Runs),
            event = commands => event.map(Input::Commands),
            release = self.releases.next() => release.map(Input::Release),
            Ok(()) = self.connects.changed() => Some(Input::Wake),
            () = tokio::time::sleep(sleep) => Some(Input::Wake),
        };
        event.ok_or(Error::Closed("the connection"))
    }

    fn sleep(&self) -> Duration {
        let sleep = match next_turn(self.wake_at, self.turned_at, self.clock.wall()) {
            NextTurn::At(at) => self.clock.until(at).min(SLEEP_MAX),
            NextTurn::Now => Duration::ZERO,
            NextTurn::Retry => SLEEP_MIN,
            NextTurn::Unknown => SLEEP_MAX,
        };
        let sleep = self.hearing.left().map_or(sleep, |left| sleep.min(left));
        sleep.min(lease::renewal(self.claims.ttl) / 2)
    }

    /// Whether the log is read later; never while somebody waits for its head.
    fn reads_log_later(&self) -> bool {
        self.echo.waits(self.clock.monotonic()) && !self.seats.iter().any(Seat::waits_for_log)
    }

    /// Goes on behind what this node has stored itself, where the log is to be read and nothing else lies before it.
    fn pass_echo(&mut self) {
        if !self.reads_log_later()
            && let Some(through) = self.echo.reaches(self.log.through)
        {
            self.log.pass(through);
            self.echo.read(through, self.clock.monotonic());
        }
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Log(event) => self.read_log(event),
            Input::Runs(event) => self.read_run_events(event),
            Input::Commands(event) => self.read_commands(event),
            Input::Lease(event) => self.claims.observe(event),
            Input::Answer(answer) => self.take_answer(answer),
            Input::Wake => {}
            Input::Stop => self.stopping = true,
            Input::Release(release) => {
                tracing::info!("hold released");
                self.settings.hold = false;
                let status = self.encoded_status();
                tokio::spawn(async move { release.answer(status.into()).await });
            }
        }
    }

    fn take_answer(&mut self, answer: Answer) {
        match answer {
            Answer::Claim { key, sent, operation, answer } => {
                self.claimed(&key, operation, sent, &answer);
            }
            Answer::Survey { partition, instance, survey } => {
                self.surveyed(partition, instance, survey);
            }
            Answer::Batch { partition, instance, fate } => self.settled(partition, instance, fate),
            Answer::Appended { partition, append, last } => {
                self.appended(partition, &append, last.as_deref());
            }
            Answer::CommandsHead { question, head } => self.commands_head(question, head),
            Answer::LogHead { partition, command, head } => self.log_head(partition, command, head),
            Answer::Dead { partition, seq, written } => self.dead_written(partition, seq, written),
            Answer::History { partition, command, history } => {
                let seat = &mut self.seats[usize::from(partition.0)];
                seat.partition.history_read(command, history);
            }
            Answer::Clock { broker, sent, received } => self.guard.sample(broker, sent, received),
            Answer::Opened { which, reader } => self.opened(which, reader),
            Answer::Bucket { recreated } => {
                if recreated {
                    tracing::info!("claiming again");
                }
            }
        }
    }

    /// Does what is due after every input.
    fn act(&mut self) -> Result<(), Error> {
        self.clock.reread();
        let monotonic = self.clock.monotonic();
        if self.guard.is_stale(monotonic)
            && monotonic.saturating_sub(self.sampled) > SAMPLE_EVERY / 8
            || monotonic.saturating_sub(self.sampled) > SAMPLE_EVERY
            || self.sampled == Duration::ZERO
        {
            self.sampled = monotonic.max(Duration::from_nanos(1));
            self.desk.sample(self.clock.stopwatch());
        }
        self.heed_the_log();
        self.claim_name()?;
        self.claims.renew(&self.desk, self.moment());
        self.claim_partitions();
        self.advance();
        self.heed_read_log();
        self.heed_closed();
        self.turned_at = self.clock.wall();
        self.wake_at = self.take_turns();
        self.echo.busy(self.seats.iter().any(Seat::is_in_burst), monotonic);
        self.pass_echo();
        if monotonic.saturating_sub(self.reported) > REPORT_EVERY {
            self.reported = monotonic;
            let status = report::status(self);
            self.options.metrics.report(&status, self.clock.wall());
            self.status.send_replace(report::encode(&status));
        }
        Ok(())
    }

    fn encoded_status(&self) -> Vec<u8> {
        report::encode(&report::status(self))
    }

    /// What a claim says now.
    pub(crate) fn moment(&self) -> Moment {
        Moment {
            wall: self.clock.wall(),
            monotonic: self.clock.monotonic(),
            ready: self.unready().is_none() && !self.stopping,
        }
    }

    /// Whether this node must give up what it leads. That the broker's clock could not be read for a while is no
    /// reason: nothing is decided until it is, and nobody else could either.
    pub(crate) fn must_leave(&self) -> bool {
        let verdict = self.guard.verdict(self.clock.wall(), self.clock.monotonic());
        self.stopping || matches!(verdict, Verdict::Off(_))
    }

    /// Why this node cannot lead.
    pub(crate) fn unready(&self) -> Option<&'static str> {
        if !self.log_read {
            return Some("it is still reading the log");
        }
        match self.guard.verdict(self.clock.wall(), self.clock.monotonic()) {
            Verdict::Good => None,
            Verdict::Unknown => Some("the broker's clock has not been read for 10 s"),
            Verdict::Off(_) => Some("its clock is off by more than is allowed"),
        }
    }
}

/// When the next turns are taken if nothing else happens.
#[derive(Debug, PartialEq, Eq)]
enum NextTurn {
    At(Timestamp),
    /// What they are for has come due since the last ones.
    Now,
    /// The last ones could not do what was due.
    Retry,
    Unknown,
}

fn next_turn(wake_at: Option<Timestamp>, turned_at: Timestamp, now: Timestamp) -> NextTurn {
    match wake_at {
        Some(at) if at > now => NextTurn::At(at),
        Some(at) if at > turned_at => NextTurn::Now,
        Some(_) => NextTurn::Retry,
        None => NextTurn::Unknown,
    }
}

fn partitions(bus: &Bus, meta: Option<&[u8]>) -> Result<u8, Error> {
    let subject = bus.names().prefix().meta();
    let Some(meta) = meta else { return Err(Error::NotInitialised { subject }) };
    match LogEvent::decode(meta) {
        Ok(Decoded::Known(LogEvent::Meta(meta)))
            if (1..=PARTITIONS_MAX).contains(&meta.partitions) =>
        {
            Ok(meta.partitions)
        }
        _ => Err(Error::Settings { subject, found: cut(&String::from_utf8_lossy(meta)) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_due_while_turns_are_taken_is_not_slept_over() {
        let at = |millis: i64| Timestamp::from_millis(1_800_000_000_000 + millis);
        for (wake_at, turned_at, now, expected) in [
            (Some(10), 5, 8, NextTurn::At(at(10))),
            (Some(10), 9, 10, NextTurn::Now),
            (Some(10), 9, 12, NextTurn::Now),
            (Some(10), 10, 12, NextTurn::Retry),
            (Some(10), 12, 12, NextTurn::Retry),
            (None, 5, 8, NextTurn::Unknown),
        ] {
            let wake_at = wake_at.map(at);
            assert_eq!(next_turn(wake_at, at(turned_at), at(now)), expected, "{wake_at:?} {now}");
        }
    }
}
