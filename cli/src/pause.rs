//! `pause`: let no slot of a job fire until it is resumed.

use cronstream_schemas::command::Verb;

use crate::args;
use crate::error::Error;
use crate::jobs;
use crate::send::{Order, granted};
use crate::session::Session;

pub(crate) async fn pause(session: &Session, wanted: &args::OneJob) -> Result<(), Error> {
    let job = &wanted.job;
    let bus = session.bus().await?;
    let before = jobs::if_readable(&bus, job).await?;
    let verdict = Order::plain(Verb::Pause, job).send(&bus, session.timeout).await?;
    granted(&verdict, &format!("pause {job}"))?;
    session.out.object(&verdict, || match before.and_then(|state| state.paused) {
        Some(since) => format!("{job} is paused already, since {since}"),
        None => format!("paused {job}; runs that are out go on, `cronstream cancel` ends them"),
    })?;
    Ok(())
}
