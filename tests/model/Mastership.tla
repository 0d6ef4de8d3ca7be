------------------------------- MODULE Mastership -------------------------------
\* SPDX-License-Identifier: Apache-2.0
(***************************************************************************)
(* Several controllers on one store, and one switch: who may write what.   *)
(*                                                                         *)
(* It follows the code step by step: store/lease.py and Candidacy (Look,   *)
(* Retake), the application's thread (Hear, Delivered, Receive,            *)
(* Reconnect), the recorder's thread (Read, Write), and a switch as        *)
(* OpenFlow 1.3.5, section 6.3.6, wants it (Handle). Between them are      *)
(* queues, and each may be arbitrarily slow.                               *)
(*                                                                         *)
(* There is no time: a controller may take a lease that it has seen        *)
(* unchanged, however short its wait, so renewals need no step. What holds *)
(* here holds for all clocks, pauses and delays. Switches do not depend on *)
(* each other, so one is enough. A controller that starts again is another *)
(* controller.                                                             *)
(***************************************************************************)
EXTENDS Naturals, Sequences, TLC

CONSTANTS
    Controllers,
    MaxGeneration, MaxVersion, MaxReconnects, MaxQueue,   \* bounds of the search
    Fenced,     \* the store compares generations before it takes rows (store.lease.fenced)
    Dated,      \* what was read under one generation has no effect under another (Desired.generation)
    Confirmed   \* a session changes nothing before the switch has made it master

VARIABLES
    row,        \* the lease in the store: its holder and generation
    same,       \* controller -> the row is still as the controller saw it last
    mine,       \* controller -> generation of the lease that it holds as far as it knows; 0: none
    reports,    \* controller -> what its lease thread has told its application, and that has not heard it
    app,        \* controller -> what its application has heard last: whether it leads, and the generation
    reading,    \* controller -> policy read from the store, on its way to the application; generation 0: none
    desired,    \* controller -> policy version that its application wants; 0: none
    session,    \* controller -> state of its session with the switch, and the version that it knows in force
    down, up,   \* controller -> messages to the switch, and from it
    role,       \* controller -> role of its connection at the switch
    seen,       \* newest generation that the switch has seen
    rules,      \* policy version of the rules in the switch
    writer,     \* generation of the controller that wrote them
    waiting,    \* controller -> policy versions of the switch's row, to be written
    reported,   \* policy version in the switch's row in the store; 0: none
    version,    \* newest policy in the store
    reconnects,
    last        \* the step before this state, for traces

state == <<row, same, mine, reports, app, reading, desired, session, down, up, role, seen, rules, writer,
           waiting, reported, version, reconnects>>

Nothing == [generation |-> 0, version |-> 0]
Closed == [state |-> "none", known |-> 0]
Append2(queues, c, item) == [queues EXCEPT ![c] = Append(@, item)]
Message(kind, generation, v) == [kind |-> kind, generation |-> generation, version |-> v]

Init ==
    /\ row = [holder |-> "nobody", generation |-> 0]
    /\ same = [c \in Controllers |-> TRUE]
    /\ mine = [c \in Controllers |-> 0]
    /\ reports = [c \in Controllers |-> <<>>]
    /\ app = [c \in Controllers |-> [leads |-> FALSE, generation |-> 0]]
    /\ reading = [c \in Controllers |-> Nothing]
    /\ desired = [c \in Controllers |-> 0]
    /\ session = [c \in Controllers |-> Closed]
    /\ down = [c \in Controllers |-> <<>>]
    /\ up = [c \in Controllers |-> <<>>]
    /\ role = [c \in Controllers |-> "equal"]
    /\ seen = 0 /\ rules = 0 /\ writer = 0
    /\ waiting = [c \in Controllers |-> <<>>]
    /\ reported = 0 /\ version = 1 /\ reconnects = 0
    /\ last = <<"Init", "nobody">>

--------------------------------------------------------------------------------
\* The lease, and the thread that looks at it.

Report(c, leads, generation) ==
    LET status == [leads |-> leads, generation |-> generation]
        before == IF reports[c] = <<>> THEN app[c] ELSE reports[c][Len(reports[c])]
    IN  reports' = IF status = before THEN reports ELSE Append2(reports, c, status)

LeaseOnly == UNCHANGED <<app, reading, desired, session, down, up, role, seen, rules, writer, waiting, reported,
                         version, reconnects>>

See(c) ==   \* the row is not as this controller saw or wrote it last
    /\ IF mine[c] # 0 THEN row # [holder |-> c, generation |-> mine[c]] ELSE ~same[c]
    /\ mine' = [mine EXCEPT ![c] = 0]
    /\ same' = [same EXCEPT ![c] = TRUE]
    /\ Report(c, FALSE, row.generation)
    /\ UNCHANGED row /\ LeaseOnly

TakeNext(c) ==
    /\ row.generation < MaxGeneration
    /\ row' = [holder |-> c, generation |-> row.generation + 1]
    /\ mine' = [mine EXCEPT ![c] = row.generation + 1]
    /\ same' = [d \in Controllers |-> d = c]
    /\ Report(c, TRUE, row.generation + 1)
    /\ LeaseOnly

Take(c) == mine[c] = 0 /\ same[c] /\ TakeNext(c)
Retake(c) == mine[c] # 0 /\ row = [holder |-> c, generation |-> mine[c]] /\ TakeNext(c)   \* a switch made it doubt

--------------------------------------------------------------------------------
\* The application's thread.

AppOnly == UNCHANGED <<row, same, mine, role, seen, rules, writer, reported, version>>

\* The next request of a session that wants this version, and the session after it was sent.
Ask(c) == Message("master", app[c].generation, 0)
Asked == [state |-> IF Confirmed THEN "asked" ELSE "master", known |-> 0]

Change(c, at, v) ==   \* for a session in the state `at`
    IF at.state = "master" /\ at.known # v
    THEN /\ session' = [session EXCEPT ![c] = [at EXCEPT !.state = "changing"]]
         /\ down' = Append2(down, c, Message("commit", app[c].generation, v))
    ELSE /\ session' = [session EXCEPT ![c] = at]
         /\ UNCHANGED down

Hear(c) ==
    /\ reports[c] # <<>>
    /\ LET status == Head(reports[c])
       IN  /\ app' = [app EXCEPT ![c] = status]
           /\ waiting' = IF status.leads THEN waiting ELSE [waiting EXCEPT ![c] = <<>>]
           /\ down' = IF status.leads THEN down
                      ELSE Append2(down, c, Message("slave", status.generation, 0))
    /\ reports' = [reports EXCEPT ![c] = Tail(@)]
    /\ desired' = [desired EXCEPT ![c] = 0]
    /\ session' = [session EXCEPT ![c] = Closed]
    /\ UNCHANGED <<reading, up, reconnects>> /\ AppOnly

Delivered(c) ==
    /\ reading[c] # Nothing
    /\ reading' = [reading EXCEPT ![c] = Nothing]
    /\ IF app[c].leads /\ (~Dated \/ reading[c].generation = app[c].generation)
       THEN /\ desired' = [desired EXCEPT ![c] = reading[c].version]
            /\ IF desired[c] = 0
               THEN /\ session' = [session EXCEPT ![c] = Asked]
                    /\ down' = Append2(down, c, Ask(c))
                    /\ waiting' = Append2(waiting, c, 0)
               ELSE Change(c, session[c], reading[c].version) /\ UNCHANGED waiting
       ELSE UNCHANGED <<desired, session, down, waiting>>
    /\ UNCHANGED <<reports, app, up, reconnects>> /\ AppOnly

Receive(c) ==
    /\ up[c] # <<>>
    /\ up' = [up EXCEPT ![c] = Tail(@)]
    /\ LET answer == Head(up[c])
           own == answer.generation = app[c].generation   \* its transaction id is that of this session
           was == session[c]
           after == CASE answer.kind = "master" /\ own /\ was.state = "asked" -> [was EXCEPT !.state = "master"]
                      [] answer.kind = "done" /\ own /\ was.state = "changing" ->
                            [state |-> "master", known |-> answer.version]
                      [] answer.kind = "denied" /\ own /\ was.state \in {"asked", "changing"} -> Closed
                      [] answer.kind = "deposed" -> Closed
                      [] OTHER -> was
       IN  /\ Change(c, after, desired[c])
           /\ waiting' = IF after.known \notin {0, was.known} THEN Append2(waiting, c, after.known) ELSE waiting
    /\ UNCHANGED <<reports, app, reading, desired, reconnects>> /\ AppOnly

Reconnect(c) ==   \* the connection ends with all that is on it, and a new one begins
    /\ reconnects < MaxReconnects
    /\ reconnects' = reconnects + 1
    /\ up' = [up EXCEPT ![c] = <<>>]
    /\ down' = [down EXCEPT ![c] = CASE desired[c] # 0 -> <<Ask(c)>>
                                     [] app[c].leads \/ app[c].generation = 0 -> <<>>
                                     [] OTHER -> <<Message("slave", app[c].generation, 0)>>]
    /\ role' = [role EXCEPT ![c] = "equal"]
    /\ session' = [session EXCEPT ![c] = IF desired[c] = 0 THEN Closed ELSE Asked]
    /\ waiting' = IF desired[c] = 0 THEN waiting ELSE Append2(waiting, c, 0)
    /\ UNCHANGED <<row, same, mine, reports, app, reading, desired, seen, rules, writer, reported, version>>

--------------------------------------------------------------------------------
\* The recorder's thread, and the operator.

Read(c) ==
    /\ app[c].leads /\ reading[c] = Nothing
    /\ reading' = [reading EXCEPT ![c] = [generation |-> app[c].generation, version |-> version]]
    /\ UNCHANGED <<reports, app, desired, session, down, up, waiting, reconnects>> /\ AppOnly

Write(c) ==
    /\ waiting[c] # <<>>
    /\ ~Fenced \/ row.generation = app[c].generation
    /\ reported' = Head(waiting[c])
    /\ waiting' = [waiting EXCEPT ![c] = Tail(@)]
    /\ UNCHANGED <<row, same, mine, reports, app, reading, desired, session, down, up, role, seen, rules, writer,
                   version, reconnects>>

Operate ==
    /\ version < MaxVersion
    /\ version' = version + 1
    /\ UNCHANGED <<row, same, mine, reports, app, reading, desired, session, down, up, role, seen, rules, writer,
                   waiting, reported, reconnects>>

--------------------------------------------------------------------------------
\* The switch takes the next message of one connection.

Handle(c) ==
    /\ down[c] # <<>>
    /\ down' = [down EXCEPT ![c] = Tail(@)]
    /\ LET order == Head(down[c])
           stale == order.generation < seen
           Answer(queues, kind) == Append2(queues, c, Message(kind, order.generation, order.version))
       IN  CASE order.kind = "master" /\ ~stale ->
                   /\ seen' = order.generation
                   /\ role' = [d \in Controllers |-> IF d = c THEN "master"
                                                     ELSE IF role[d] = "master" THEN "slave" ELSE role[d]]
                   /\ up' = [d \in Controllers |-> IF d = c THEN Answer(up, "master")[c]
                               ELSE IF role[d] = "master" THEN Append(up[d], Message("deposed", 0, 0)) ELSE up[d]]
                   /\ UNCHANGED <<rules, writer>>
             [] order.kind = "slave" /\ ~stale ->
                   /\ seen' = order.generation
                   /\ role' = [role EXCEPT ![c] = "slave"]
                   /\ UNCHANGED <<up, rules, writer>>
             [] order.kind = "commit" /\ role[c] # "slave" ->
                   /\ rules' = order.version
                   /\ writer' = order.generation
                   /\ up' = Answer(up, "done")
                   /\ UNCHANGED <<seen, role>>
             [] OTHER ->
                   /\ up' = IF order.kind = "slave" THEN up ELSE Answer(up, "denied")
                   /\ UNCHANGED <<seen, role, rules, writer>>
    /\ UNCHANGED <<row, same, mine, reports, app, reading, desired, session, waiting, reported, version, reconnects>>

--------------------------------------------------------------------------------

Alike == Permutations(Controllers)

Bounded == \A c \in Controllers :
    /\ Len(reports[c]) <= MaxQueue /\ Len(waiting[c]) <= MaxQueue
    /\ Len(down[c]) <= MaxQueue /\ Len(up[c]) <= MaxQueue

Step(name, c, action) == action /\ Bounded' /\ last' = <<name, c>>

Next ==
    \/ Step("Operate", "nobody", Operate)
    \/ \E c \in Controllers :
        \/ Step("See", c, See(c))
        \/ Step("Take", c, Take(c))
        \/ Step("Retake", c, Retake(c))
        \/ Step("Hear", c, Hear(c))
        \/ Step("Read", c, Read(c))
        \/ Step("Delivered", c, Delivered(c))
        \/ Step("Receive", c, Receive(c))
        \/ Step("Reconnect", c, Reconnect(c))
        \/ Step("Write", c, Write(c))
        \/ Step("Handle", c, Handle(c))

Spec == Init /\ [][Next]_<<state, last>>

--------------------------------------------------------------------------------
\* What must hold.

MayWrite(c) == role[c] # "slave" /\ \E i \in 1..Len(down[c]) : down[c][i].kind = "commit"

\* Of the changes on their way to the switch, those that it would take are of one controller.
OneWriter == \A c, d \in Controllers : MayWrite(c) /\ MayWrite(d) => c = d

\* A generation has one holder, and the newest is the row's.
OneHolder == \A c \in Controllers :
    mine[c] # 0 => mine[c] <= row.generation /\ (mine[c] = row.generation => row.holder = c)

\* The rules in the switch are never older than the policy in the switch's row.
NeverOlder == reported <= rules

\* The rules of a generation are never replaced by those of an earlier one.
NewestWriter == [][writer' >= writer]_writer
=================================================================================
