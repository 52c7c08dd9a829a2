//! Limits on the number of fields in messages that the controller and its clients receive.

use tributary_transport::bounded;

use crate::MAX_MESSAGE_BYTES;
use crate::v1::{
    AnswerRequest, AnswerResponse, CompareTablesRequest, CompareTablesResponse, CreateJobRequest,
    CreateJobResponse, EndJobRequest, EndJobResponse, ExplainJobRequest, ExplainJobResponse,
    GetControllerRequest, GetControllerResponse, GetCountersRequest, GetCountersResponse, GetScheduleRequest,
    GetScheduleResponse, GetTreeRequest, GetTreeResponse, HandInProfileRequest, HandInProfileResponse,
    HostOrder, HostReport, JobEvent, JoinRequest, LeaveRequest, LeaveResponse, ListEventsRequest,
    ListEventsResponse, ListHostsRequest, ListHostsResponse, ListJobsRequest, ListJobsResponse,
    ListLinksRequest, ListLinksResponse, ListSwitchesRequest, ListSwitchesResponse, OpenGroupRequest,
    OpenGroupResponse, ReportFaultRequest, ReportFaultResponse,
};

/// The maximum number of fields in a request, which may come from any caller.
/// The largest requests are profiles of models with thousands of tensors. The numbers in them may count as fields.
const OF_REQUEST: usize = 1 << 18;
/// The maximum number of fields in other messages. It is as high as the size of a message allows.
/// Answers come from a trusted peer. Finished slices, whose values may count as fields, are accepted only from members
/// of a job.
const OF_TRUSTED: usize = MAX_MESSAGE_BYTES;

bounded!(
    OF_REQUEST;
    CreateJobRequest,
    HostReport,
    OpenGroupRequest,
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
    ListLinksRequest,
    GetTreeRequest,
    ListEventsRequest,
    GetControllerRequest,
);
bounded!(
    OF_TRUSTED;
    AnswerRequest,
    CreateJobResponse,
    HostOrder,
    JobEvent,
    AnswerResponse,
    OpenGroupResponse,
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
    ListLinksResponse,
    GetTreeResponse,
    ListEventsResponse,
    GetControllerResponse,
);
