//! `cronstream`, the operator's tool: one binary with a verb for each thing to do, and a file for each verb.
//!
//! ```text
//!   args ─► session (output, timeout, connection) ─► verb ─► exit code
//!             commands: send ─► CRON_COMMANDS ─► verdict on an inbox
//!             reads:    jobs, history, cluster ─► the streams and the nodes, never a ticker's rights
//! ```
//!
//! Invariant: standard output carries data and nothing else; no output holds a secret.

mod accounts;
mod ailments;
mod announce;
mod apply;
mod args;
mod backfill;
mod bench;
mod bounded;
mod calendar;
mod calendars;
mod cancel;
mod caret;
mod clock_changes;
mod cluster;
mod connect;
mod context;
mod dead;
mod delete;
mod dev;
mod doctor;
mod documents;
mod error;
mod executor;
mod explain;
mod follow;
mod forecast;
mod get;
mod history;
mod host;
mod import;
mod init;
mod instants;
mod jobs;
mod line;
mod lint;
mod list;
mod logging;
mod metrics;
mod next;
mod number;
mod offline;
mod output;
mod overriding;
mod pause;
mod relay;
mod release;
mod resume;
mod revisions;
mod rights;
mod rollback;
mod run;
mod runs;
mod send;
mod session;
mod simulate;
mod slots;
mod status;
mod stop;
mod ticker;
mod trigger;
mod tz_report;
mod vectors;
mod wait;
mod words;
mod yaml;

use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;

use clap::Parser as _;

use crate::args::{CalendarVerb, Cli, Verb};
use crate::error::{Error, Report};
use crate::session::Session;

/// A node makes and drops many small things on several threads, which is where the system's allocator spent a
/// quarter of its time (`docs/operating/performance.md`).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let Cli { global, verb } = Cli::parse_from(args::hyphened(std::env::args_os()));
    let lines = logging::start(&verb, global.log_format, global.verbose);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&Error::Output(error), false),
    };
    let session = Session::new(&global, verb.role());
    let shows = only_shows(&verb);
    // The verbs' own memory is on the heap: the largest of them is a ticker.
    let ended = runtime.block_on(Box::pin(dispatch(&session, verb)));
    // What was logged stands before the error.
    drop(lines);
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error, shows),
    }
}

fn failed(error: &Error, shows: bool) -> ExitCode {
    // `cronstream list | head` has read what it wanted: no message, and no failure of a verb that does nothing else.
    let enough = matches!(error, Error::Output(error) if error.kind() == ErrorKind::BrokenPipe);
    if enough && shows {
        return ExitCode::SUCCESS;
    }
    if !enough {
        // A standard error that is gone leaves the exit code.
        writeln!(std::io::stderr().lock(), "{}", Report(error)).ok();
    }
    error.class().1.into()
}

/// Whether all that a verb does is to show something; of others the exit code says how far they came.
const fn only_shows(verb: &Verb) -> bool {
    match verb {
        Verb::Get(_)
        | Verb::List(_)
        | Verb::Runs(_)
        | Verb::Run(_)
        | Verb::Next(_)
        | Verb::Explain(_)
        | Verb::Forecast(_)
        | Verb::History(_)
        | Verb::TzReport(_)
        | Verb::Status
        | Verb::Dead(_) => true,
        Verb::Simulate(simulate) => simulate.vectors.is_none(),
        Verb::Calendar(calendar) => match calendar.verb {
            CalendarVerb::List(_) | CalendarVerb::Get(_) | CalendarVerb::Days(_) => true,
            CalendarVerb::Apply(_) | CalendarVerb::Delete(_) => false,
        },
        Verb::Dev(_)
        | Verb::DevGuard(_)
        | Verb::Accounts(_)
        | Verb::Init(_)
        | Verb::Ticker(_)
        | Verb::Executor(_)
        | Verb::Relay(_)
        | Verb::Apply(_)
        | Verb::Delete(_)
        | Verb::Pause(_)
        | Verb::Resume(_)
        | Verb::Trigger(_)
        | Verb::Cancel(_)
        | Verb::SkipNext(_)
        | Verb::ShiftNext(_)
        | Verb::Backfill(_)
        | Verb::Import(_)
        | Verb::Lint(_)
        | Verb::Rollback(_)
        | Verb::Doctor
        | Verb::Release
        | Verb::Bench(_) => false,
    }
}

async fn dispatch(session: &Session, verb: Verb) -> Result<(), Error> {
    match verb {
        Verb::Dev(dev) => dev::dev(session, &dev).await,
        Verb::DevGuard(guard) => dev::guard(&guard).await,
        Verb::Accounts(accounts) => accounts::accounts(session, &accounts),
        Verb::Init(init) => init::init(session, &init).await,
        Verb::Ticker(ticker) => ticker::ticker(session, ticker).await,
        Verb::Executor(executor) => executor::executor(session, &executor).await,
        Verb::Relay(relay) => relay::relay(session, &relay).await,
        Verb::Apply(apply) => apply::apply(session, &apply).await,
        Verb::Get(job) => get::get(session, &job).await,
        Verb::List(list) => list::list(session, &list).await,
        Verb::Delete(delete) => delete::delete(session, &delete).await,
        Verb::Pause(job) => pause::pause(session, &job).await,
        Verb::Resume(job) => resume::resume(session, &job).await,
        Verb::Trigger(trigger) => trigger::trigger(session, &trigger).await,
        Verb::Cancel(cancel) => cancel::cancel(session, &cancel).await,
        Verb::SkipNext(skip) => overriding::skip_next(session, &skip).await,
        Verb::ShiftNext(shift) => overriding::shift_next(session, &shift).await,
        Verb::Backfill(wanted) => backfill::backfill(session, &wanted).await,
        Verb::Calendar(wanted) => calendar::calendar(session, &wanted).await,
        Verb::Runs(runs) => runs::runs(session, &runs).await,
        Verb::Run(run) => run::run(session, &run).await,
        Verb::Next(next) => next::next(session, &next).await,
        Verb::Explain(wanted) => explain::explain(session, &wanted).await,
        Verb::Import(wanted) => import::import(session, &wanted),
        Verb::Simulate(simulate) => simulate::simulate(session, &simulate),
        Verb::Lint(lint) => lint::lint(session, &lint),
        Verb::Forecast(forecast) => forecast::forecast(session, &forecast).await,
        Verb::History(history) => revisions::history(session, &history).await,
        Verb::Rollback(rollback) => rollback::rollback(session, &rollback).await,
        Verb::TzReport(report) => tz_report::tz_report(session, &report).await,
        Verb::Status => status::status(session).await,
        Verb::Doctor => doctor::doctor(session).await,
        Verb::Release => release::release(session).await,
        Verb::Dead(dead) => dead::dead(session, &dead).await,
        Verb::Bench(bench) => bench::bench(session, &bench).await,
    }
}
