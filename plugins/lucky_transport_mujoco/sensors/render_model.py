"""The robot's model as images show it: the same bodies, with a sky, a checkered floor and light.

It is compiled from the same MJCF as the physics, so bodies, joints and cameras have the same numbers in both.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from functools import cache
from importlib.resources import files

from lucky_transport_mujoco import terrain
from lucky_transport_mujoco.bindings import Model, mj

#: Colours, RGB from 0 to 1.
HORIZON = (0.80, 0.86, 0.91)
ZENITH = (0.36, 0.55, 0.78)
CHECKER = ((0.47, 0.52, 0.50), (0.36, 0.41, 0.40))

#: Side of one square of the floor.
SQUARE_M = 0.5

#: How much light comes from everywhere, from the eye and from the sun.
AMBIENT, HEADLIGHT, SUNLIGHT = 0.38, 0.22, 0.62

#: OpenGL draws shadows this near to the robot. Nearer they would be sharper, but a slope would shade itself.
_SHADOW_M = 8.0

#: Where haze begins, and where nothing else is seen.
HAZE_M = (8.0, 60.0)

#: Nothing nearer or further is drawn.
NEAR_M, FAR_M = 0.02, 100.0


def render_model() -> Model:
    """Return a new model on flat ground, the caller's own to write to."""
    model = mj.MjModel.from_xml_string(_text())
    extent = float(model.stat.extent)
    model.vis.map.fogstart, model.vis.map.fogend = HAZE_M[0] / extent, HAZE_M[1] / extent
    model.vis.map.shadowclip = _SHADOW_M / extent
    terrain.write_bumps(model)
    terrain.put_under(model, terrain.FLAT, 0.0)
    floor = terrain.geom(model, "floor")
    for body in (0, mj.mj_name2id(model, mj.mjtObj.mjOBJ_BODY, "trunk")):
        model.body_sameframe[body] = 0  # MuJoCo 3 ignores a floor that was tilted later
    model.geom_sameframe[floor] = 0
    return model


@cache
def _text() -> str:
    root = ET.fromstring(files("lucky_transport_mujoco").joinpath("quadruped.xml").read_text(encoding="utf-8"))
    asset = _child(root, "asset")
    nadir = tuple(min(2 * low - high, 1.0) for low, high in zip(HORIZON, ZENITH, strict=True))
    sky = {"rgb1": _numbers(ZENITH), "rgb2": _numbers(nadir), "width": "64", "height": "384"}
    ET.SubElement(asset, "texture", {"name": "sky", "type": "skybox", "builtin": "gradient", **sky})
    squares = {"rgb1": _numbers(CHECKER[0]), "rgb2": _numbers(CHECKER[1]), "width": "256", "height": "256"}
    ET.SubElement(asset, "texture", {"name": "squares", "type": "2d", "builtin": "checker", **squares})
    repeat = f"{1 / SQUARE_M} {1 / SQUARE_M}"
    ET.SubElement(
        asset, "material", {"name": "squares", "texture": "squares", "texuniform": "true", "texrepeat": repeat}
    )
    floor = next(geom for geom in root.iter("geom") if geom.get("name") == "floor")
    floor.set("material", "squares")
    floor.set("rgba", "1 1 1 1")
    _light(root)
    return ET.tostring(root, encoding="unicode")


def _light(root: ET.Element) -> None:
    """Give the scene its light and its haze."""
    visual = ET.SubElement(root, "visual")
    headlight = {"ambient": _grey(AMBIENT), "diffuse": _grey(HEADLIGHT), "specular": _grey(0.05)}
    ET.SubElement(visual, "headlight", headlight)
    ET.SubElement(visual, "rgba", {"haze": f"{_numbers(HORIZON)} 1", "fog": f"{_numbers(HORIZON)} 1"})
    ET.SubElement(visual, "quality", {"shadowsize": "1024", "offsamples": "4"})
    ET.SubElement(visual, "global", {"offwidth": "640", "offheight": "480"})
    world = _child(root, "worldbody")
    sun = _child(world, "light")
    world.remove(sun)
    _child(world, "body").append(sun)  # it goes with the robot, so that its sharp shadow does too
    sun.set("mode", "track")
    sun.set("pos", "-2 -1 10")  # back along its direction, so that its beam meets the robot
    sun.set("diffuse", _grey(SUNLIGHT))
    sun.set("specular", _grey(0.1))


def _child(root: ET.Element, tag: str) -> ET.Element:
    found = root.find(tag)
    return ET.SubElement(root, tag) if found is None else found


def _numbers(values: tuple[float, ...]) -> str:
    return " ".join(map(str, values))


def _grey(value: float) -> str:
    return f"{value} {value} {value}"
