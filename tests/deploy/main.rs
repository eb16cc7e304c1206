//! What is shipped for running a cluster: docker-compose.yml, the configurations it mounts, the systemd units. They
//! agree with each other, and the cluster they describe runs, by local binaries where the containers would be.

mod agree;
mod compose;
mod run;
mod units;
mod yaml;
