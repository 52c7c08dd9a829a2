//! Credentials that the receiver of a large message checks before it reads the message.
//! A worker shows them to a parameter server, and a member shows them to its controller.

use tonic::Request;
use tonic::metadata::{BinaryMetadataValue, MetadataMap};

const JOB: &str = "tributary-job-bin";
const TOKEN: &str = "tributary-token-bin";

/// A job's name and token, which the caller sends in the metadata of a call.
///
/// The first message of a worker's session and a member's finished slices may have hundreds of megabytes. The receiver
/// must check the caller before it accepts that amount of data.
#[derive(Clone, PartialEq, Eq)]
pub struct JobCredentials {
    /// The name of the job.
    pub job: String,
    /// The job's token.
    pub token: Vec<u8>,
}

impl JobCredentials {
    /// Creates a request with `message`, and with the credentials in its metadata.
    pub fn onto<M>(&self, message: M) -> Request<M> {
        let mut request = Request::new(message);
        let metadata = request.metadata_mut();
        metadata.insert_bin(JOB, BinaryMetadataValue::from_bytes(self.job.as_bytes()));
        metadata.insert_bin(TOKEN, BinaryMetadataValue::from_bytes(&self.token));
        request
    }

    /// Returns the credentials in a call's metadata; `None` if there are none.
    pub fn read(metadata: &MetadataMap) -> Option<Self> {
        let bytes = |name| metadata.get_bin(name).and_then(|value| value.to_bytes().ok());
        let job = String::from_utf8(bytes(JOB)?.to_vec()).ok()?;
        Some(Self { job, token: bytes(TOKEN)?.to_vec() })
    }
}

/// Omits the token, which is a secret.
impl std::fmt::Debug for JobCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JobCredentials").field("job", &self.job).finish_non_exhaustive()
    }
}
