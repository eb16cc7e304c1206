//! The broker goes away and comes back: restarted, out for a while, cut off from the others, out of disk. Whatever
//! it does, clients find their way back by themselves, nothing acknowledged is lost, and no consumer is left over.

mod cutoff;
mod disk;
mod limit;
mod mount;
mod outage;
mod restarts;
mod rolling;
mod stage;
