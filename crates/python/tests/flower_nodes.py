"""Nodes of Flower in this process: messages, contexts, and as much of a grid as strategies and workflows need."""

import copy

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict

try:
    from flwr.supercore.task_identity import TaskIdentity

    TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1
except ImportError:  # older versions take it from elsewhere
    pass


def context(**node):
    """Of a node whose configuration says so."""
    return Context(run_id=1, node_id=2, node_config=node, state=RecordDict(), run_config={})


def arrays_of(arrays):
    return ArrayRecord({name: Array(np.asarray(array)) for name, array in arrays.items()})


def asked(arrays, kind="train", **more):
    """What a server sends."""
    content = {"arrays": arrays_of(arrays), **more, "config": ConfigRecord({"server-round": 1})}
    return Message(RecordDict(content), dst_node_id=2, message_type=kind)


def answer(message, arrays, **metrics):
    """What an unprotected app answers."""
    content = {"arrays": arrays_of(arrays), "metrics": MetricRecord({"num-examples": 917, **metrics})}
    return Message(RecordDict(content), reply_to=message)


class InProcess:
    """A grid whose nodes run apps here, one after another; `silent` says of which messages nothing comes back."""

    def __init__(self, apps, silent=lambda message: False):
        self.apps = {number: (made, context(client=number)) for number, made in enumerate(apps, 1)}
        self.silent = silent

    def get_node_ids(self):
        return list(self.apps)

    def send_and_receive(self, messages, timeout=None):
        replies = []
        for message in messages:
            # on its way a message is copied: apps write into what they get
            message = copy.deepcopy(message)
            made, where = self.apps[message.metadata.dst_node_id]
            if not self.silent(message):
                replies.append(made(message, where))
        return replies
