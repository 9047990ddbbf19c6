//! What the documents on queues, on reservation and on scaling promise, as data: where it is said, and what it says in our words.
//!
//! An id is `seed:lines`, with a word behind it where the same lines promise several things. Lines of seed 0 are those that
//! the document itself prints. How seeds are read where they leave something open is settled by the design, §2 and §3.

/// One promise.
#[derive(Debug, Clone, Copy)]
pub(super) struct Promise {
    pub(super) id: &'static str,
    pub(super) says: &'static str,
}

const fn promise(id: &'static str, says: &'static str) -> Promise {
    Promise { id, says }
}

/// Queue state management.
const STATES: &[Promise] = &[
    promise("0:22-23", "the cluster is divided by the weights of its queues"),
    promise("0:23-24/most", "a queue's configuration bounds what its tasks can use"),
    promise(
        "0:23-24/least",
        "a queue's configuration assures what its tasks can use",
    ),
    promise("0:24-25", "a user or group can be given one queue or several"),
    promise("0:25-30", "one user's flood of tasks does not keep the others out"),
    promise("0:30-31/place", "a delivered task is in the queue that it names"),
    promise("0:30-31/order", "a queue's priority decides who is placed first"),
    promise("0:31-32", "shares and limits can be changed while everything runs"),
    promise(
        "0:32-34",
        "a busy queue takes idle resources beyond what it is entitled to",
    ),
    promise("0:38-40", "a queue with waiting or running tasks is not deleted"),
    promise("0:40", "still, a queue can be deleted"),
    promise("0:41-42", "the administrator decides through the queue who gets in"),
    promise("0:52-53", "spec.state exists and steers the queue"),
    promise("0:66-67", "status.state exists and shows how the queue is"),
    promise("0:83", "an Open queue takes new tasks"),
    promise("0:84-86/refuses", "a Closed queue takes no new tasks"),
    promise("0:84-86/spares", "closing deletes no task"),
    promise(
        "0:87-90/first",
        "a queue with tasks that is to be Closed becomes Closing",
    ),
    promise("0:87-90/then", "when its tasks have ended it becomes Closed"),
    promise("0:96/set", "Open can be asked for"),
    promise("0:96/delete", "an Open queue cannot be deleted"),
    promise("0:96/schedule", "tasks of an Open queue are scheduled"),
    promise("0:96/deserved", "an Open queue has its normal entitlement"),
    promise("0:97/set", "Closed can be asked for"),
    promise("0:97/delete", "a Closed queue can be deleted"),
    promise("0:97/deserved", "a Closed queue has its normal entitlement"),
    promise("0:98/set", "Closing cannot be asked for"),
    promise("0:98/receive", "a Closing queue takes no new tasks"),
    promise("0:98/delete", "a Closing queue cannot be deleted"),
    promise("0:98/schedule", "tasks of a Closing queue are scheduled"),
    promise("0:98/deserved", "a Closing queue has its normal entitlement"),
    promise("0:100", "a queue that is created without a state is Open"),
    promise("0:101", "at creation only Open and Closed can be chosen"),
    promise("0:102-103", "a task for a Closed or Closing queue is refused"),
    promise("0:104", "only Closed queues can be deleted"),
    promise(
        "0:110-112",
        "at creation an absent state is filled in and a wrong one refused",
    ),
    promise("0:113", "a state that an update brings must be a valid one"),
    promise("0:114-115", "for deletion the state of status counts, not that of spec"),
    promise("0:116", "the default queue cannot be deleted"),
    promise(
        "0:118",
        "creating, changing and deleting queues is checked before it happens",
    ),
    promise("0:161", "the state is verified when a queue is created or changed"),
    promise("0:162", "it is verified that a queue may be deleted"),
    promise("0:164-165", "the default state is written into a new queue"),
    promise("0:208", "no wanted state: the state is Open"),
    promise("0:209", "wanted Open: the state is Open"),
    promise("0:210-211", "wanted Closed with a live PodGroup: the state is Closing"),
    promise("0:211-212", "wanted Closed without one: the state is Closed"),
    promise("0:218", "a job that names no queue is created"),
    promise("0:219", "a job that names an Open queue is created"),
    promise("0:220", "a job that names any other queue is refused"),
    promise("0:224-225", "states change nothing in scheduling"),
    promise("0:231", "vcctl creates a queue with a state"),
    promise("0:232", "vcctl shows the state in the detail and in the list"),
    promise("0:233", "vcctl updates weight and state"),
    promise("0:234", "vcctl deletes a queue"),
    promise("0:235", "vcctl opens, closes and updates queues by operations"),
];

/// Queue.
const SHARING: &[Promise] = &[
    promise("1:7", "jobs that name no queue are all in the one named default"),
    promise("1:11", "a queue belongs to the cluster: namespaces share what it has"),
    promise("1:31-32", "queues share resources by weight"),
    promise("1:36-37", "the status counts jobs in state Unknown"),
    promise("1:38-39", "the status counts jobs in state Running"),
    promise("1:40-41", "the status counts jobs in state Pending"),
    promise("1:42-43", "the status counts jobs in state Completed"),
    promise("1:44-45", "the status counts jobs in state Failed"),
    promise("1:46-47", "the status counts jobs in state Aborted"),
    promise("1:55", "the counters follow PodGroups and Jobs"),
    promise("1:56", "with a queue its PodGroups and Jobs are deleted"),
    promise("1:62", "a Job or PodGroup for a queue that does not exist is refused"),
    promise("1:63", "a Job or PodGroup for a queue that is being deleted is refused"),
    promise("1:69", "a PodGroup of somebody else's controller counts as Unknown"),
    promise("1:77-81", "vcctl creates a queue with a weight"),
    promise("1:85-89", "vcctl shows one queue, with its creation time"),
    promise("1:93-99", "vcctl lists queues with weight, total, pending and running"),
    promise(
        "1:105/deserved",
        "proportion: a queue deserves weight / all weights of the cluster",
    ),
    promise("1:105/bound", "proportion: no queue is given more than it deserves"),
    promise("1:109/all", "reclaim takes back from every queue that has too much"),
    promise("1:109/due", "reclaim leaves every queue what it deserves"),
    promise("1:109/gang", "reclaim leaves gangs whole"),
    promise(
        "1:113/idle",
        "without backfill two jobs that are too big for their queues leave the cluster idle",
    ),
    promise("1:113/fill", "backfill fills what is idle beyond what queues deserve"),
    promise(
        "1:113/small",
        "what backfill lent does not keep a smaller job out for good",
    ),
];

/// Hierarchical queues on the capacity plugin.
const TREE: &[Promise] = &[
    promise("3:19/tree", "the administrator makes queues below queues"),
    promise(
        "3:19/sums",
        "children have together no more capacity and guarantee than their parent",
    ),
    promise("3:23", "only leaves take jobs and PodGroups"),
    promise("3:27", "what a child uses shows in all queues above it"),
    promise(
        "3:31/reclaim",
        "reclaim takes from queues of the same parent first, then further up",
    ),
    promise(
        "3:31/preempt",
        "preempt takes from queues of the same parent first, then further up",
    ),
    promise(
        "3:37",
        "of jobs B (below the same parent) and C (below root), B gives way first",
    ),
    promise("3:44", "no queue is created below one that has jobs or PodGroups"),
    promise("3:45/deserved", "children deserve together no more than their parent"),
    promise(
        "3:45/guarantee",
        "children are guaranteed together no more than their parent",
    ),
    promise("3:46", "with a queue its children are deleted, before it"),
    promise("3:47", "with a queue its children are closed, before it"),
    promise("3:51", "root is above all queues"),
    promise("3:52/made", "root is there without being made"),
    promise(
        "3:52/total",
        "root deserves what the cluster has, also when that changes",
    ),
    promise("3:71-72", "who is above and below a queue is known"),
    promise(
        "3:100/sums",
        "sums over children are checked at every change, from above and from below",
    ),
    promise("3:100/capability", "no child may have more capability than its parent"),
    promise(
        "3:101-102",
        "what does not comply is told with its numbers and not scheduled, until it is put right",
    ),
    promise("3:103", "among leaves the queues above them are compared, from the top"),
    promise("3:104", "nothing of a queue with children is placed"),
    promise("3:125", "among tasks, those below the same parent go first"),
    promise("3:126", "among jobs, those below the same parent go first"),
    promise("3:128", "the numbers of queues above follow from the bottom up"),
    promise("3:130", "without hierarchy, capacity is flat"),
    promise("3:134/children", "vcctl shows the queues below a queue"),
    promise("3:134/tree", "vcctl shows the whole tree"),
    promise("3:138", "jobs for queues with children are refused"),
    promise("3:140/pause", "stopping a parent stops its children"),
    promise("3:140/resume", "starting a parent again starts its children again"),
];

/// Scaling jobs up and down.
const SCALING: &[Promise] = &[
    promise("4:7-11", "a job can be scaled while it runs"),
    promise(
        "4:21",
        "for a new job the plugins make its Service and its map of hosts",
    ),
    promise("4:23", "a new job gets its claims"),
    promise("4:25", "a new job gets its PodGroup"),
    promise("4:27", "new pods get their environment and the mounted hosts"),
    promise("4:29", "a new job gets as many pods as it has replicas"),
    promise("4:35-36", "scaling brings in line all that the job owns"),
    promise("4:40", "the svc plugin brings the map of hosts in line"),
    promise("4:42", "scaling up makes pods"),
    promise("4:44", "scaling down deletes pods"),
    promise("4:46-47", "what a job got at its start is not made again"),
    promise("4:49", "a changed job is an event of its own, JobUpdated"),
    promise("4:50", "its action is UpdateJob"),
    promise("4:53", "pods that were there learn the hosts of all"),
    promise("4:54-55", "the plugins are called for an update"),
    promise("4:59", "the hosts under /etc/volcano are up to date"),
    promise("4:61", "the environment of pods that were there stays as it is"),
    promise("4:83", "an update begins with the plugins"),
    promise("4:85", "then come claims, where some are missing"),
    promise("4:87", "then the PodGroup is brought in line"),
    promise("4:89", "the new pods get environment and mounts as the first ones did"),
    promise("4:91", "in the end there are as many pods as replicas"),
    promise("4:94", "scaling down takes the highest index first"),
    promise("4:100/replicas", "replicas may change"),
    promise("4:100/min", "minAvailable may change"),
    promise("4:100/rest", "nothing else may"),
    promise("4:101", "fewer replicas than minAvailable are refused"),
    promise("4:103", "minAvailable must be above zero"),
];

/// Reservation: nodes that are locked for a queue.
const RESERVATION: &[Promise] = &[
    promise("2:8", "resources can be reserved for a queue"),
    promise("2:9", "a reservation waits, and evicts nobody"),
    promise("2:10/on", "a reservation is turned on without a restart"),
    promise("2:10/change", "a reservation is changed without a restart"),
    promise("2:10/off", "a reservation is turned off without a restart"),
    promise("2:11/hard", "a reservation can be an amount"),
    promise("2:11/percentage", "a reservation can be a share of the nodes"),
    promise(
        "2:15",
        "no more can be asked for than the cluster has, in any dimension",
    ),
    promise("2:16", "no more can be asked for than the capability, in any dimension"),
    promise(
        "2:17-18/enough",
        "what is reserved is not less than asked for, in every dimension",
    ),
    promise("2:17-18/tight", "what is reserved is not much more than asked for"),
    promise("2:19", "a share of all nodes can be asked for"),
    promise("2:20-21", "of an amount and a share, one is chosen by a rule"),
    promise("2:24", "what is not reserved goes on being scheduled"),
    promise("2:25", "nodes that another job is waiting for are not locked"),
    promise("2:26", "nodes that are locked for another queue are not locked"),
    promise("2:27-28", "as few nodes as possible are locked"),
    promise("2:32", "nobody can reserve more than queues may have together"),
    promise("2:44-51", "spec.guarantee has a policy, a percentage and a resource"),
    promise("2:53-60", "status.reservation has the nodes and what is idle on them"),
    promise("2:65", "the policy is Best-Effort unless said otherwise"),
    promise("2:65-66", "with Guaranteed running workloads are evicted"),
    promise("2:68/range", "a percentage is within 0 and 1"),
    promise("2:68-71", "floor(nodes x percentage) nodes are locked"),
    promise("2:72", "nodes are locked until the percentage is reached"),
    promise("2:72-73", "of an amount and a percentage the larger one counts"),
    promise("2:75", "any category of resources can be reserved"),
    promise("2:77", "status.reservation.nodes names the locked nodes"),
    promise("2:79", "status.reservation.resource tells whether the demand is met"),
    promise("2:83", "only sets of nodes count that serve in all dimensions"),
    promise("2:87-89", "the smaller sum is preferred"),
    promise("2:91-93", "nodes that the queue uses already are preferred"),
    promise("2:95-97", "fewer nodes are preferred"),
    promise("2:99-101", "nodes with more idle resources are preferred"),
    promise("2:124", "every few seconds the best nodes are looked for again"),
    promise("2:125", "the locked nodes and what is idle on them are kept up to date"),
    promise("2:130-131", "the queue controller finds and writes the nodes"),
    promise("2:136", "a locked node takes pods of its queue only"),
];

/// All promises.
pub(super) fn all() -> impl Iterator<Item = Promise> {
    [STATES, SHARING, RESERVATION, TREE, SCALING]
        .into_iter()
        .flatten()
        .copied()
}
