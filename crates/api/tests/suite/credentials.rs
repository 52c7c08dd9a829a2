//! Tests of the credentials in the metadata of a call.

use tonic::metadata::{BinaryMetadataValue, MetadataMap};
use tributary_api::JobCredentials;

const JOB: &str = "tributary-job-bin";
const TOKEN: &str = "tributary-token-bin";

fn credentials() -> JobCredentials {
    // A token is any bytes, so its metadata is binary.
    JobCredentials { job: "digits ü".into(), token: vec![0, 255, 7] }
}

#[test]
fn the_receiver_reads_the_credentials_of_the_caller() {
    let request = credentials().onto("a message");
    assert_eq!(*request.get_ref(), "a message");
    assert_eq!(JobCredentials::read(request.metadata()), Some(credentials()));
}

#[test]
fn a_call_without_both_parts_has_no_credentials() {
    let metadata = credentials().onto(()).metadata().clone();
    assert_eq!(JobCredentials::read(&MetadataMap::new()), None);
    for part in [JOB, TOKEN] {
        let mut rest = metadata.clone();
        rest.remove_bin(part).unwrap();
        assert_eq!(JobCredentials::read(&rest), None, "without {part}");
    }
    let mut other = metadata;
    other.insert_bin(JOB, BinaryMetadataValue::from_bytes(&[0xff]));
    assert_eq!(JobCredentials::read(&other), None, "a job's name is UTF-8");
}

#[test]
fn logs_contain_the_job_and_not_the_token() {
    let logged = format!("{:?}", JobCredentials { job: "digits".into(), token: vec![113, 114] });
    assert!(logged.contains("digits") && !logged.contains("113"), "{logged}");
}
