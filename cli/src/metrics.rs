//! `--metrics`: where a node serves its metrics and its health.

use std::net::SocketAddr;

use cronstream_telemetry::metrics::{Endpoint, Page};

use crate::error::Error;

/// Begins to serve where an address is given; ends when what is returned is dropped.
pub(crate) async fn serve(
    address: Option<SocketAddr>,
    page: Page,
) -> Result<Option<Endpoint>, Error> {
    let Some(address) = address else { return Ok(None) };
    match Endpoint::start(address, page).await {
        Ok(endpoint) => Ok(Some(endpoint)),
        Err(source) => Err(Error::Metrics { address, source }),
    }
}
