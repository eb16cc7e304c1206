//! `run`: what happened to a run, in the order the broker stored it.

use cronstream_schemas::event::{Cause, Decoded, Failure, Fired, Output, RunEvent};
use cronstream_schemas::id::RunId;
use cronstream_schemas::json::Json;
use cronstream_schemas::name::{JobId, Name};
use cronstream_schemas::time::Timestamp;
use serde::Serialize;

use crate::args;
use crate::error::Error;
use crate::history::{self, Fire, Step};
use crate::output::{fields, printable, printable_json, short, table};
use crate::session::Session;
use crate::words;

#[derive(Debug, Serialize)]
struct Shown {
    run: RunId,
    job: JobId,
    state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<Order>,
    timeline: Vec<Entry>,
}

/// What was ordered; absent when the fires are no longer kept.
#[derive(Debug, Serialize)]
struct Order {
    queue: Name,
    task: Name,
    params: Json,
    cause: Cause,
    scheduled_at: Timestamp,
    run_by: Timestamp,
}

#[derive(Debug, Serialize)]
struct Entry {
    at: Timestamp,
    shard: u16,
    event: String,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Output>,
}

pub(crate) async fn run(session: &Session, wanted: &args::Run) -> Result<(), Error> {
    let run = wanted.run;
    let bus = session.bus().await?;
    let steps = history::steps(&bus, run).await?;
    let job = steps.first().map(|step| step.key.job.clone());
    let ended = steps.iter().rfind(|step| step.is_terminal()).map(|step| step.at);
    let fires = history::fires(&bus, run, job.as_ref(), ended).await?;
    let Some(job) = job.or_else(|| fires.first().map(|fire| fire.fired.job.clone())) else {
        return Err(Error::NoRun(run));
    };
    let shown = shown(run, job, &fires, &steps);
    session.out.object(&shown, || shown.describe())?;
    Ok(())
}

fn shown(run: RunId, job: JobId, fires: &[Fire], steps: &[Step]) -> Shown {
    let shards = fires.iter().map(|fire| fire.fired.shard);
    let mut shards: Vec<u16> =
        shards.chain(steps.iter().map(|step| step.key.shard.shard)).collect();
    shards.sort_unstable();
    shards.dedup();
    let last = |shard: &u16| steps.iter().rfind(|step| step.key.shard.shard == *shard);
    let mut timeline: Vec<Entry> =
        fires.iter().map(Entry::of_fire).chain(steps.iter().map(Entry::of_step)).collect();
    timeline.sort_by_key(|entry| entry.at);
    Shown {
        run,
        job,
        state: history::standing(shards.iter().map(last)),
        order: fires.first().map(|fire| Order::new(&fire.fired)),
        timeline,
    }
}

impl Order {
    fn new(fired: &Fired) -> Self {
        Self {
            queue: fired.queue.clone(),
            task: fired.task.clone(),
            params: fired.params.clone(),
            cause: fired.cause.clone(),
            scheduled_at: fired.scheduled_at,
            run_by: fired.run_by,
        }
    }
}

impl Entry {
    fn of_fire(fire: &Fire) -> Self {
        let Fired { fire_no, shard, scheduled_at, epoch, .. } = &fire.fired;
        let late = short(fire.at.since(*scheduled_at));
        let detail = match fire_no {
            1 => format!("{late} after its instant, epoch {}", epoch.0),
            again => format!("fire {again}, epoch {}", epoch.0),
        };
        Self {
            at: fire.at,
            shard: *shard,
            event: "fired".into(),
            detail,
            result: None,
            output: None,
        }
    }

    fn of_step(step: &Step) -> Self {
        let (event, detail, result, output) = match &step.event {
            Decoded::Unknown { kind } => {
                (kind.as_str(), "written by a later version".to_owned(), None, None)
            }
            Decoded::Known(event) => {
                let (detail, result, output) = tell(event, step.seq);
                (event.kind(), detail, result, output)
            }
        };
        let shard = step.key.shard.shard;
        Self { at: step.at, shard, event: event.to_owned(), detail, result, output }
    }
}

/// An event in words, with what the task returned and printed.
fn tell(event: &RunEvent, seq: u64) -> (String, Option<Json>, Option<Output>) {
    let attempt = event.place().attempt;
    let failed = |failure: &Failure| {
        format!("attempt {attempt}: {}: {}", words::failure_kind(failure.kind), failure.message)
    };
    match event {
        RunEvent::Started(e) => {
            (format!("attempt {attempt} on {}, fencing token {seq}", e.executor.node), None, None)
        }
        RunEvent::Interrupted(e) => (format!("given back by {}", e.executor.node), None, None),
        RunEvent::AttemptFailed(e) => (failed(&e.failure), None, e.output.clone()),
        RunEvent::Failed(e) => (failed(&e.failure), None, e.output.clone()),
        RunEvent::Succeeded(e) => (
            format!("attempt {attempt} on {}", e.executor.node),
            e.result.clone(),
            e.output.clone(),
        ),
        RunEvent::Expired(e) | RunEvent::Lost(e) => {
            (format!("by the leader of epoch {}", e.epoch.0), None, None)
        }
        RunEvent::Cancelled(e) => (
            e.command.map(|command| format!("by command {command}")).unwrap_or_default(),
            None,
            None,
        ),
    }
}

impl Shown {
    fn describe(&self) -> String {
        let mut lines = vec![
            ("run", self.run.to_string()),
            ("job", self.job.to_string()),
            ("state", self.state.clone()),
        ];
        if let Some(order) = &self.order {
            lines.extend([
                ("task", format!("{} on queue {}", order.task, order.queue)),
                ("cause", words::cause(&order.cause)),
                ("params", order.params.as_str().to_owned()),
                ("hard end", order.run_by.to_string()),
            ]);
        }
        let rows = self.timeline.iter().map(|entry| {
            let Entry { at, shard, event, detail, .. } = entry;
            [at.to_string(), shard.to_string(), event.clone(), detail.clone()]
        });
        let mut text =
            format!("{}\n\n{}", fields(&lines), table(["TIME", "SHARD", "EVENT", "DETAIL"], rows));
        for entry in &self.timeline {
            entry.describe_output(&mut text);
        }
        text
    }
}

impl Entry {
    fn describe_output(&self, text: &mut String) {
        if let Some(result) = &self.result {
            text.push_str(&format!("\n\nresult\n{}", printable_json(result.as_str())));
        }
        let Some(Output { stdout, stderr, dropped }) = &self.output else { return };
        for (name, printed) in [("stdout", stdout), ("stderr", stderr)] {
            if !printed.is_empty() {
                let lines: Vec<String> = printed.lines().map(printable).collect();
                text.push_str(&format!(
                    "\n\n{name} of shard {} at {}\n{}",
                    self.shard,
                    self.at,
                    lines.join("\n")
                ));
            }
        }
        if *dropped > 0 {
            text.push_str(&format!("\n({dropped} bytes before that were dropped)"));
        }
    }
}
