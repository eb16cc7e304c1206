//! Who may do what: nats-config/rights.toml against a real server that runs with the accounts made from it.

mod life;
mod matrix;
mod replies;
mod stage;
mod wire;
