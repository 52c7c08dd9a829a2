//! A network namespace for one test thread. It ends with the thread and its sockets.
use std::process::Command;

use rustix::thread::UnshareFlags;

/// Moves the calling thread into a new network namespace with two connected interfaces, both up.
///
/// If that is not possible, it prints the reason and returns `false`.
#[must_use]
pub fn enter_with_veth_pair(left: &str, right: &str) -> bool {
    let entered = enter();
    if entered {
        connect(left, right);
    }
    entered
}

/// Moves the calling thread into a new and empty network namespace.
///
/// The threads and processes that the thread starts later are in the namespace, too. If that is not possible, it prints
/// the reason and returns `false`.
#[must_use]
pub fn enter() -> bool {
    // SAFETY: a new network namespace changes nothing about memory or file descriptors of other threads.
    #[allow(unsafe_code)]
    let unshared = unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) };
    if let Err(error) = unshared {
        eprintln!("skipped: no network namespace of its own ({error}): run as root");
        return false;
    }
    if Command::new("ip").arg("-Version").output().is_err() {
        eprintln!("skipped: there is no `ip`: install iproute2");
        return false;
    }
    true
}

/// Makes two connected interfaces in the calling thread's namespace, both up.
pub fn connect(left: &str, right: &str) {
    ip(&format!("link add {left} type veth peer name {right}"));
    ip(&format!("link set {left} up"));
    ip(&format!("link set {right} up"));
}

/// Runs `ip` in the calling thread's namespace.
pub fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}
