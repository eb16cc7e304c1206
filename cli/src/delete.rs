//! `delete`: end a job's life.

use cronstream_schemas::command::Verb;

use crate::args;
use crate::error::Error;
use crate::jobs;
use crate::output::confirm;
use crate::send::{Order, granted};
use crate::session::Session;

pub(crate) async fn delete(session: &Session, delete: &args::Destroy) -> Result<(), Error> {
    let job = &delete.job;
    let bus = session.bus().await?;
    jobs::if_readable(&bus, job).await?;
    confirm(&format!("delete job {job}"), delete.yes)?;
    let verdict = Order::plain(Verb::Delete, job).send(&bus, session.timeout).await?;
    granted(&verdict, &format!("delete {job}"))?;
    session.out.object(&verdict, || {
        format!("deleted {job}; runs that are out go on, `cronstream cancel` ends them")
    })?;
    Ok(())
}
