# Made by tools/sync.py from the table FACE beside it: make sync
from cosee.planner.planning import AgenticIQAState as AgenticIQAState
from cosee.planner.planning import PlanCache as PlanCache
from cosee.planner.planning import PlanControlFlags as PlanControlFlags
from cosee.planner.planning import PlannerOutput as PlannerOutput
from cosee.planner.planning import plan as plan
from cosee.planner.planning import planner_client as planner_client
from cosee.planner.planning import planner_node as planner_node
from cosee.planner.measures import full_reference as full_reference
from cosee.planner.measures import image_quality as image_quality
from cosee.planner.quality import QualityAgent as QualityAgent
from cosee.planner.quality import QualityController as QualityController
from cosee.planner.quality import quality_node as quality_node
from cosee.planner.graph import cosee_graph as cosee_graph
from cosee.planner.graph import planner_graph as planner_graph

FACE: dict[str, str]
__all__ = [
    "AgenticIQAState", "PlanCache", "PlanControlFlags", "PlannerOutput", "QualityAgent", "QualityController",
    "cosee_graph", "full_reference", "image_quality", "plan", "planner_client", "planner_graph",
    "planner_node", "quality_node"
]
