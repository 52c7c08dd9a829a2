//! Explains why the kernel refuses a user namespace, and names the remedy.

use std::fmt::Display;
use std::fs;
use std::io;

/// A step that failed, and its error.
#[derive(Debug)]
pub(super) struct Refusal {
    step: &'static str,
    pub(super) reason: io::Error,
}

impl Refusal {
    /// Returns a function for `map_err` that adds the step to an error.
    pub(super) fn at<E: Into<io::Error>>(step: &'static str) -> impl FnOnce(E) -> Self {
        move |reason| Self { step, reason: reason.into() }
    }
}

/// A kernel parameter that can forbid user namespaces to ordinary users.
struct Parameter {
    name: &'static str,
    /// The value with which the parameter forbids user namespaces.
    forbids: u64,
    /// The component that sets this value, and the setting by which root can allow user namespaces.
    advice: &'static str,
}

const PARAMETERS: [Parameter; 5] = [
    Parameter {
        name: "kernel.unprivileged_userns_clone",
        forbids: 0,
        advice: "the kernel forbids it to ordinary users; `sysctl kernel.unprivileged_userns_clone=1` as root allows it",
    },
    Parameter {
        name: "kernel.apparmor_restrict_unprivileged_userns",
        forbids: 1,
        advice: "AppArmor forbids it to programs without a profile that has `userns,`; \
                 `sysctl kernel.apparmor_restrict_unprivileged_userns=0` as root allows it to all",
    },
    Parameter {
        name: "user.max_user_namespaces",
        forbids: 0,
        advice: "the kernel allows no user namespaces; `sysctl user.max_user_namespaces=10000` as root allows them",
    },
    Parameter {
        name: "user.max_net_namespaces",
        forbids: 0,
        advice: "the kernel allows no network namespaces; `sysctl user.max_net_namespaces=10000` as root allows them",
    },
    Parameter {
        name: "user.max_mnt_namespaces",
        forbids: 0,
        advice: "the kernel allows no mount namespaces; `sysctl user.max_mnt_namespaces=10000` as root allows them",
    },
];

/// The advice if no kernel parameter explains the refusal.
const OTHERWISE: &str = "in a container, its runtime may forbid it (a seccomp filter, as Docker's; SELinux)";

/// Returns a text with the step, the reason and the remedy.
pub(super) fn explain(refusal: &Refusal) -> String {
    let Refusal { step, reason } = refusal;
    text(step, reason, |name| {
        fs::read_to_string(format!("/proc/sys/{}", name.replace('.', "/"))).ok()?.trim().parse().ok()
    })
}

fn text(step: &str, reason: impl Display, value: impl Fn(&str) -> Option<u64>) -> String {
    let forbidding = PARAMETERS.iter().find(|parameter| value(parameter.name) == Some(parameter.forbids));
    let advice = forbidding.map_or(OTHERWISE, |parameter| parameter.advice);
    format!("cannot {step} ({reason}): {advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parameter_that_forbids_it_is_named() {
        let explained = |set: &[(&str, u64)]| {
            let value = |name: &str| set.iter().find(|(other, _)| *other == name).map(|(_, value)| *value);
            text("make a user namespace", "Operation not permitted", value)
        };
        let ubuntu =
            [("kernel.apparmor_restrict_unprivileged_userns", 1), ("user.max_user_namespaces", 60_000)];
        assert!(explained(&ubuntu).contains("sysctl kernel.apparmor_restrict_unprivileged_userns=0"));
        assert!(
            explained(&[("kernel.unprivileged_userns_clone", 0)]).contains("unprivileged_userns_clone=1")
        );
        assert!(explained(&[("user.max_user_namespaces", 0)]).contains("user.max_user_namespaces=10000"));
        let free = [
            ("kernel.unprivileged_userns_clone", 1),
            ("kernel.apparmor_restrict_unprivileged_userns", 0),
            ("user.max_user_namespaces", 60_000),
        ];
        assert!(explained(&free).contains("container"), "{}", explained(&free));
    }
}
