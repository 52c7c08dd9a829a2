//! How many fields the messages may have that the controller and its clients take off the wire.

use tributary_transport::bounded;

use crate::MAX_MESSAGE_BYTES;
use crate::v1::{
    AnswerRequest, AnswerResponse, CompareTablesRequest, CompareTablesResponse, CreateJobRequest,
    CreateJobResponse, EndJobRequest, EndJobResponse, ExplainJobRequest, ExplainJobResponse,
    GetControllerRequest, GetControllerResponse, GetCountersRequest, GetCountersResponse, GetScheduleRequest,
    GetScheduleResponse, HandInProfileRequest, HandInProfileResponse, HostOrder, HostReport, JobEvent,
    JoinRequest, LeaveRequest, LeaveResponse, ListHostsRequest, ListHostsResponse, ListJobsRequest,
    ListJobsResponse, ListSwitchesRequest, ListSwitchesResponse, ReportFaultRequest, ReportFaultResponse,
};

/// Requests come from anyone. The largest are the profiles of models of thousands of tensors, whose numbers can look like
/// fields, too.
const OF_REQUEST: usize = 1 << 18;
/// As many as a message has room for: answers come from whom one has asked, and slices, whose values can look like
/// fields, only from members of a job.
const OF_TRUSTED: usize = MAX_MESSAGE_BYTES;

bounded!(
    OF_REQUEST;
    CreateJobRequest,
    HostReport,
    JoinRequest,
    ReportFaultRequest,
    LeaveRequest,
    EndJobRequest,
    ListJobsRequest,
    ExplainJobRequest,
    HandInProfileRequest,
    GetScheduleRequest,
    GetCountersRequest,
    ListSwitchesRequest,
    CompareTablesRequest,
    ListHostsRequest,
    GetControllerRequest,
);
bounded!(
    OF_TRUSTED;
    AnswerRequest,
    CreateJobResponse,
    HostOrder,
    JobEvent,
    AnswerResponse,
    ReportFaultResponse,
    LeaveResponse,
    EndJobResponse,
    ListJobsResponse,
    ExplainJobResponse,
    HandInProfileResponse,
    GetScheduleResponse,
    GetCountersResponse,
    ListSwitchesResponse,
    CompareTablesResponse,
    ListHostsResponse,
    GetControllerResponse,
);
