//! The three followed streams, and how far each of them is read.

use cronstream_bus::{Bus, Error, Follow, FollowEvent, FollowOptions, From};

/// A stream and how far it is folded.
#[derive(Debug)]
pub(crate) struct Reader {
    follow: Follow,
    /// Everything up to here is folded.
    pub(crate) through: u64,
}

impl Reader {
    pub(crate) async fn open(bus: &Bus, stream: &str, from: From) -> Result<Self, Error> {
        let options = FollowOptions { stream: stream.to_owned(), filter: None, from };
        Ok(Self { follow: bus.follow(options).await?, through: 0 })
    }

    pub(crate) async fn next(&mut self) -> Option<FollowEvent> {
        self.follow.next().await
    }

    /// Asks to be told where the stream's head is.
    pub(crate) fn confirm(&self) {
        self.follow.confirm();
    }

    /// Goes on behind `through`: everything up to there is folded without having been read.
    pub(crate) fn pass(&mut self, through: u64) {
        self.through = self.through.max(through);
        self.follow.pass(through);
    }

    /// Notes how far an event goes.
    pub(crate) fn note(&mut self, event: &FollowEvent) {
        match event {
            FollowEvent::Messages(messages) => {
                let last = messages.last().map_or(0, |message| message.seq);
                self.through = self.through.max(last);
            }
            FollowEvent::CaughtUp { through } => self.through = self.through.max(*through),
            FollowEvent::Reset { .. } => self.through = 0,
        }
    }
}
