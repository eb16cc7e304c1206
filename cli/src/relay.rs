//! `relay`: hand spans on to a collector until told to stop.

use cronstream_telemetry::metrics::RelayMetrics;
use cronstream_telemetry::{Relay, RelayOptions};

use crate::error::Error;
use crate::session::Session;
use crate::{args, host, metrics, stop};

/// Headers for the collector, `name=value` separated by commas, as OpenTelemetry's own programs read them.
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";

pub(crate) async fn relay(session: &Session, relay: &args::Relay) -> Result<(), Error> {
    let stop = stop::on_signal()?;
    if relay.exit_with_parent {
        stop::with_parent(&stop);
    }
    let counted = RelayMetrics::default();
    let _endpoint = metrics::serve(relay.metrics, counted.page()).await?;
    let options = RelayOptions {
        node: relay.node.clone().unwrap_or_else(host::process_name),
        collector: relay.otlp.clone(),
        headers: headers(&std::env::var(HEADERS).unwrap_or_default())?,
        metrics: counted,
    };
    let bus = session.bus().await?;
    tracing::info!(node = %options.node, "relay starts");
    Relay::new(bus, &options)?.run(stop).await?;
    tracing::info!("relay has stopped");
    Ok(())
}

fn headers(text: &str) -> Result<Vec<(String, String)>, Error> {
    let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    let pairs = entries.map(|entry| {
        let (name, value) = entry.split_once('=')?;
        Some((name.trim().to_owned(), value.trim().to_owned()))
    });
    let wrong = || Error::Usage(format!("{HEADERS} is not of the form name=value,name=value"));
    pairs.collect::<Option<_>>().ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_pairs_and_a_wrong_one_is_not_told() {
        assert_eq!(headers("").unwrap(), []);
        let two = headers("authorization=Bearer a=b, x = y ,").unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(two, [pair("authorization", "Bearer a=b"), pair("x", "y")]);
        assert!(!headers("secret").unwrap_err().to_string().contains("secret"));
    }
}
