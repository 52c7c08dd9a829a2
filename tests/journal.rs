//! Tests that remove the controller's journal. They need root; without root, they print that they are
//! skipped.

use std::fs;

use tributary_testkit::network::{Daemon, Network};

const TOPOLOGY: &str = "two-workers.toml";

#[test]
fn jobs_that_are_lost_with_the_journal_are_named() {
    let Some(network) = Network::up("journal", TOPOLOGY) else { return };
    let file = network.journal();
    let start = || Daemon::spawn(network.controller_command());
    let _switches = network.start_switches();
    let mut first = start();
    first.wait_for_line("a new, empty journal of jobs");
    first.wait_for_line("ready");
    let _agents = network.start_agents();
    network.create_job("job");
    let _server = Daemon::start(network.server_command("job"));
    let options = ["--size", "64KiB", "--iterations", "1000000"];
    let client = |host: &String| Daemon::spawn(network.allreduce_command(host, "job", &options));
    let _clients: Vec<_> = network.workers().iter().map(client).collect();
    network.wait_for_progress("job", 1);

    // While the controller runs, no job is lost.
    fs::remove_file(&file).unwrap();
    first.wait_for_line("the journal of jobs was removed: it was written anew");
    first.kill();
    let mut second = start();
    second.wait_for_line("taken up from an earlier controller");
    second.wait_for_line("ready");
    network.wait_for_progress("job", network.progress("job") + 1000);

    // Without a running controller, the jobs are lost, and the next controller reports this in its log.
    second.kill();
    fs::remove_file(&file).unwrap();
    let mut third = start();
    third.wait_for_line("a new, empty journal of jobs");
    third.wait_for_line("withdrawing tables of jobs that this controller does not know");
    third.wait_for_line("comes back to a job that this controller does not know");
}
