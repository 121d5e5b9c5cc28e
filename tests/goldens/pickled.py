"""EDM's way of pickling: an object carries the source of its class, and is rebuilt by `torch_utils.persistence`. Here stands what such a
file holds, none of EDM's code; the source that it carries raises an error, so that whoever runs it is found out."""

import pickle
import sys
import types
from pathlib import Path

import torch

SOURCE = "raise RuntimeError('the source inside a pickle was executed')\n"


def _reconstruct_persistent_obj(meta):
    raise RuntimeError("nobody unpickles this")


def persistent(name):
    """A class of this name whose objects are pickled with their source."""

    def reduce(self, protocol=None):
        state = dict(self.__dict__)
        meta = dict(type="class", version=6, module_src=SOURCE, class_name=name, state=state)
        return _reconstruct_persistent_obj, (meta,), None

    return type(name, (torch.nn.Module,), {"__reduce_ex__": reduce})


def write(path, weights, precondition="EDMPrecond", **attributes):
    """The network of a state dict of half numbers, inside EDM's frame, as `pickle.dump(dict(ema=..., ...))` writes it."""
    module = types.ModuleType("torch_utils.persistence")
    sys.modules.update({"torch_utils": types.ModuleType("torch_utils"), "torch_utils.persistence": module})
    module._reconstruct_persistent_obj = _reconstruct_persistent_obj
    _reconstruct_persistent_obj.__module__ = "torch_utils.persistence"
    frame, layer = persistent(precondition)(), persistent("Layer")
    for name, value in dict(dict(img_resolution=8, label_dim=0, use_fp16=False, sigma_data=0.5), **attributes).items():
        setattr(frame, name, value)
    frame.model = persistent("SongUNet")()
    for key, value in weights.items():
        *parents, leaf = key.split(".")
        at = frame.model
        for parent in parents:
            if parent not in at._modules:
                at.add_module(parent, torch.nn.ModuleDict() if parent in ("enc", "dec") else layer())
            at = at._modules[parent]
        at.register_parameter(leaf, torch.nn.Parameter(value, requires_grad=False))
    # A parameter that is absent, a buffer that is not used, and what else EDM keeps beside the network.
    frame.model.register_parameter("absent", None)
    frame.model.map_layer0.register_buffer("resample_filter", torch.ones(2, 2))
    with open(path, "wb") as file:
        pickle.dump(dict(ema=frame, loss_fn=None, augment_pipe=None, dataset_kwargs=dict(path="faces.zip")), file)
    print(Path(path).name, Path(path).stat().st_size)
