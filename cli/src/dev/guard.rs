//! `dev-guard`: waits for the end of a `dev`, and ends the nats-server that it could not end itself.
//!
//! Invariant: it does nothing while the `dev` lives, and touches no server of another one.

use std::time::Duration;

use cronstream_server::{Owner, end_orphan};

use crate::error::Error;
use crate::{args, stop};

/// How long tickers and executor have to give back what they hold; they too see that `dev` is gone.
const GRACE: Duration = Duration::from_secs(3);

pub(crate) async fn guard(guard: &args::DevGuard) -> Result<(), Error> {
    stop::parent_gone().await;
    tokio::time::sleep(GRACE).await;
    end_orphan(&guard.dir, Owner::Ended(guard.owner)).await?;
    Ok(())
}
