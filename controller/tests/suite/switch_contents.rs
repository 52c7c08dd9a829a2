//! Tests of the contents of real switches after faults and restarts of switches or of the controller.

use crate::common;
use crate::common::{Member, create, end, is_away, job, join_all, list, refusal, shipped, start};
use crate::switches;
use crate::switches::{Switches, eventually};
use tonic::Code;
use tributary_api::v1;
use tributary_controller::PipelineSource;
use tributary_p4runtime::entry::{ActionCall, Entity, MulticastGroup, TableEntry};

/// Creates a job of the topology's workers, and lets it start.
async fn running(client: &mut common::Client, request: v1::CreateJobRequest) -> (Vec<u8>, Vec<Member>) {
    let name = request.name.clone();
    let (token, plan) = create(client, request).await.unwrap();
    let mut members = join_all(client, &name, &token, &plan).await;
    for member in &mut members {
        member.started().await;
    }
    (token, members)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_jobs_tables_come_with_the_last_member_and_go_with_the_end() {
    let topology = shipped("three-tier-8.toml");
    let switches = Switches::start(&topology).await;
    let (controller, mut client) = start(topology, switches.addresses()).await;
    let bare = switches.read_all().await;
    for (name, held) in &bare {
        assert!(
            held.iter().any(|entity| entity.to_string().starts_with("identity[default]")),
            "{name}: {held:?}"
        );
        assert_eq!(held.iter().filter(|entity| entity.to_string().starts_with("mac_forward")).count(), 11);
        assert!(!held.iter().any(|entity| entity.to_string().starts_with("admission")));
    }

    let (token, plan) = create(&mut client, job("digits")).await.unwrap();
    assert_eq!(switches.read_all().await, bare, "a job that waits has no tables");
    let mut members = join_all(&mut client, "digits", &token, &plan).await;
    for member in &mut members {
        member.started().await;
    }
    let with_job = switches.read_all().await;
    for role in &plan.switches {
        let held = &with_job[&role.name];
        let count = |table: &str| held.iter().filter(|entity| entity.to_string().starts_with(table)).count();
        assert_eq!(count("result_group"), 1, "{}", role.name);
        assert_eq!(count("multicast group"), 2, "{}", role.name);
        // There is one entry for each child, and one entry for the results from the parent.
        assert_eq!(count("admission"), role.fan_in as usize + 1, "{}", role.name);
    }

    end(&mut client, "digits", &token).await.unwrap();
    assert_eq!(switches.read_all().await, bare);
    controller.shutdown().await.unwrap();
    assert_eq!(switches.read_all().await, bare, "ordinary forwarding stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_a_switch_held_it_is_brought_into_its_state() {
    let topology = shipped("two-workers.toml");
    let fresh = Switches::start(&topology).await;
    let (_controller, _) = start(topology.clone(), fresh.addresses()).await;
    let expected = fresh.read_all().await;

    let spoilt = Switches::start(&topology).await;
    let mac = |number: u64| TableEntry::new("mac_forward").exact("dst", number);
    let guard = TableEntry::new("egress_guard").exact("job", 7u16).exact("egress_port", 300u16);
    let leftovers: Vec<Entity> = vec![
        MulticastGroup::to_ports(1, [400, 401]).into(),
        MulticastGroup::to_ports(99, [3]).into(),
        mac(0x0200_0000_0077).action(ActionCall::new("forward").with("port", 9u16)).into(),
        mac(0xffff_ffff_ffff).action(ActionCall::new("to_controller")).into(),
        guard.action(ActionCall::new("allow")).into(),
        TableEntry::new("result_group")
            .exact("job", 7u16)
            .action(ActionCall::new("deliver").with("group", 99u16).with("release", 1u8))
            .into(),
        TableEntry::default_of("identity")
            .action(ActionCall::new("set_identity").with("node", 4711u16))
            .into(),
    ];
    // The cookie is that of our program. With another cookie, the controller would replace the program and lose all
    // entries.
    let (_, ours) = fresh.running("leaf").await;
    spoilt.install_and_write("leaf", ours, &leftovers).await;
    assert_ne!(spoilt.read_all().await, expected);
    let (_other, _) = start(topology, spoilt.addresses()).await;
    assert_eq!(spoilt.read_all().await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_program_is_replaced_whatever_it_is_called() {
    let topology = shipped("two-workers.toml");
    let mut switches = Switches::start(&topology).await;
    let (first, _) = start(topology.clone(), switches.addresses()).await;
    let ours = switches.running("leaf").await;
    first.shutdown().await.unwrap();
    // Another program under our program's cookie, as any primary controller may install it.
    let other = switches::program_with_small_table("SwitchIngress.admission.admission", 8);
    switches.use_program(other.path());
    switches.install_and_write("leaf", ours.1, &[]).await;
    assert_ne!(switches.running("leaf").await, ours);
    let (_second, _) = start(topology, switches.addresses()).await;
    assert_eq!(switches.running("leaf").await, ours);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_controller_withdraws_what_the_old_one_left() {
    let topology = shipped("two-workers.toml");
    let switches = Switches::start(&topology).await;
    let (first, mut client) = start(topology.clone(), switches.addresses()).await;
    let bare = switches.read_all().await;
    let (_, mut members) = running(&mut client, job("digits")).await;
    let with_job = switches.read_all().await;
    assert_ne!(with_job, bare);
    drop(first);
    assert_eq!(members[0].failed().await, "the controller was shut down");
    let (_second, _) = start(topology, switches.addresses()).await;
    assert_eq!(switches.read_all().await, bare);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_switch_that_was_rebooted_gets_its_tables_back() {
    let topology = shipped("two-workers.toml");
    let mut switches = Switches::start(&topology).await;
    let (controller, mut client) = start(topology, switches.addresses()).await;
    let (_, _members) = running(&mut client, job("digits")).await;
    let before = switches.read_all().await;
    switches.reboot("leaf").await;
    eventually(async || switches.try_read("leaf").await.is_some_and(|held| held == before["leaf"])).await;
    assert_eq!(list(&mut client).await[0].state(), v1::JobState::Running);
    controller.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_fails_when_its_tables_cannot_be_installed_and_says_where() {
    let topology = shipped("two-workers.toml");
    let mut switches = Switches::start(&topology).await;
    // The program is ours, but its table `admission` has room for two entries. A job of two workers needs three.
    let small = switches::program_with_small_table("SwitchIngress.admission.admission", 2);
    let config = common::config(topology);
    let config = tributary_controller::ControllerConfig {
        switches: switches.addresses(),
        pipeline: PipelineSource::Directory(small.path().to_owned()),
        ..config
    };
    let controller = tributary_controller::Controller::start(config).await.unwrap();
    let mut client = common::connect(&controller).await;
    switches.use_program(small.path());
    let bare = switches.read_all().await;

    let (token, plan) = create(&mut client, job("digits")).await.unwrap();
    let mut members = join_all(&mut client, "digits", &token, &plan).await;
    for member in &mut members {
        let reason = member.failed().await;
        assert!(
            reason.starts_with("its tables cannot be installed: switch leaf refused to insert admission["),
            "{reason}"
        );
        assert!(reason.contains("RESOURCE_EXHAUSTED"), "{reason}");
    }
    // This second call of EndJob waits until the job's tables are withdrawn.
    end(&mut client, "digits", &token).await.unwrap();
    assert_eq!(switches.read_all().await, bare);
}

#[tokio::test(flavor = "multi_thread")]
async fn more_jobs_than_slots_is_a_clear_error_and_ending_one_makes_room() {
    let topology = shipped("two-workers.toml");
    let switches = Switches::start(&topology).await;
    let (_controller, mut client) = start(topology, switches.addresses()).await;
    let big = |name: &str| v1::CreateJobRequest { window: 4096, ..job(name) };
    let (token, _) = create(&mut client, big("first")).await.unwrap();
    let (code, text) = refusal(create(&mut client, big("second")).await);
    assert_eq!(code, Code::ResourceExhausted);
    assert!(
        text.starts_with(
            "no switch has slots for job \"second\": leaf: 4096 slots needed in one block; 0 of 4096 are free"
        ),
        "{text}"
    );
    end(&mut client, "first", &token).await.unwrap();
    create(&mut client, big("second")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_without_a_switch_is_unavailable_and_its_slots_come_back_with_it() {
    let topology = shipped("two-workers.toml");
    let mut switches = Switches::start(&topology).await;
    let (_controller, mut client) = start(topology, switches.addresses()).await;
    switches.stop("leaf").await;
    is_away(&client, "leaf").await;
    let big = |name: &str| v1::CreateJobRequest { window: 4096, ..job(name) };
    let (code, text) = refusal(create(&mut client, big("first")).await);
    assert_eq!(code, Code::Unavailable, "{text}");
    assert!(text.ends_with("dead at the moment: switch leaf"), "{text}");
    switches.restart("leaf").await;
    let mut name = 0;
    eventually(async || {
        name += 1;
        create(&mut client.clone(), big(&format!("again{name}"))).await.is_ok()
    })
    .await;
}
