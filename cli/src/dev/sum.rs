//! A NATS service that adds numbers: what the example NATS task asks.

use cronstream_bus::{Bus, Headers};
use cronstream_schemas::header;
use tokio::task::JoinSet;

use super::examples::SUM_SUBJECT;
use crate::error::Error;

/// Answers from now on, as a task of `services`.
pub(super) async fn start(bus: &Bus, services: &mut JoinSet<()>) -> Result<(), Error> {
    let mut requests = bus.requests(SUM_SUBJECT, "sum").await?;
    services.spawn(async move {
        while let Some(request) = requests.next().await {
            let (headers, body) = answer(&request.payload);
            if let Err(error) = request.answer(&headers, body.into()).await {
                tracing::debug!(%error, "not answered");
            }
        }
    });
    Ok(())
}

fn answer(body: &[u8]) -> (Headers, String) {
    let (status, body) = match serde_json::from_slice::<Vec<f64>>(body) {
        Ok(numbers) => ("ok", numbers.iter().fold(0.0, |sum, number| sum + number).to_string()),
        Err(error) => ("fail", format!("not a list of numbers: {error}")),
    };
    (vec![(header::STATUS, status.to_owned())], body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_added_and_other_params_fail_for_good() {
        let said = |body: &str| {
            let (headers, body) = answer(body.as_bytes());
            (headers[0].1.clone(), body)
        };
        assert_eq!(said("[1, 2, 3.5]"), ("ok".into(), "6.5".into()));
        assert_eq!(said("[]"), ("ok".into(), "0".into()));
        assert_eq!(said("{}").0, "fail");
    }
}
