//! What others send: clients in other languages, and input that is wrong in every way there is.

mod client;
mod input;
