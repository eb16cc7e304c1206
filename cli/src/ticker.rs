//! `ticker`: run a ticker until it is told to stop.

use cronstream_scheduler::{ClockOffset, Options};
use cronstream_telemetry::metrics::TickerMetrics;

use crate::error::Error;
use crate::session::Session;
use crate::{args, host, metrics, stop};

pub(crate) async fn ticker(session: &Session, ticker: args::Ticker) -> Result<(), Error> {
    let stop = stop::on_signal()?;
    if ticker.exit_with_parent {
        stop::with_parent(&stop);
    }
    let counted = TickerMetrics::default();
    let _endpoint = metrics::serve(ticker.metrics, counted.page()).await?;
    let bus = session.bus().await?;
    let clock = match (ticker.test_clock_offset, ticker.test_clock_offset_file) {
        (_, Some(path)) => ClockOffset::File(path),
        (0, None) => ClockOffset::None,
        (millis, None) => ClockOffset::Fixed(millis),
    };
    let options = Options {
        node: ticker.node.unwrap_or_else(host::node_name),
        hold: ticker.hold,
        max_clock_error: ticker.max_clock_error.to_duration(),
        cursor_refresh: ticker.cursor_refresh.to_duration(),
        trace_ratio: ticker.trace_ratio,
        metrics: counted,
        clock,
    };
    tracing::info!(node = %options.node, hold = options.hold, "ticker starts");
    cronstream_scheduler::run(bus, options, stop).await?;
    tracing::info!("ticker has stopped");
    Ok(())
}
