# Made by tools/sync.py from the table FACE beside it: make sync
from cosee.eval.metrics import RunningMetrics as RunningMetrics
from cosee.eval.metrics import Scores as Scores
from cosee.eval.metrics import aggregate_metrics as aggregate_metrics
from cosee.eval.metrics import anls as anls
from cosee.eval.metrics import exact_match as exact_match
from cosee.eval.metrics import f1_score as f1_score
from cosee.eval.metrics import flavours as flavours
from cosee.eval.metrics import normalize_answer as normalize_answer
from cosee.eval.metrics import score as score
from cosee.eval.metrics import score_many as score_many
from cosee.eval.registry import scorer as scorer
from cosee.eval.calibration import expected_calibration_error as expected_calibration_error
from cosee.eval.calibration import fit_curve as fit_curve
from cosee.eval.statistics import bootstrap as bootstrap
from cosee.eval.statistics import compare_runs as compare_runs
from cosee.eval.statistics import holm as holm
from cosee.eval.statistics import mcnemar as mcnemar
from cosee.eval.statistics import permutation_test as permutation_test
from cosee.eval.statistics import plan_split as plan_split
from cosee.eval.task import MethodOutcome as MethodOutcome
from cosee.eval.methods import METHODS as METHODS
from cosee.eval.methods import Method as Method
from cosee.eval.methods import make_method as make_method
from cosee.eval.methods import register_method as register_method
from cosee.eval.baselines import direct_answer as direct_answer
from cosee.eval.baselines import self_consistency as self_consistency
from cosee.eval.baselines import single_agent_cot as single_agent_cot
from cosee.eval.chat import multi_agent_chat_no_board as multi_agent_chat_no_board
from cosee.eval.matching import match_budget as match_budget
from cosee.eval.judge import judge_answer as judge_answer

FACE: dict[str, str]
__all__ = [
    "METHODS", "Method", "MethodOutcome", "RunningMetrics", "Scores", "aggregate_metrics", "anls",
    "bootstrap", "compare_runs", "direct_answer", "exact_match", "expected_calibration_error", "f1_score",
    "fit_curve", "flavours", "holm", "judge_answer", "make_method", "match_budget", "mcnemar",
    "multi_agent_chat_no_board", "normalize_answer", "permutation_test", "plan_split", "register_method",
    "score", "score_many", "scorer", "self_consistency", "single_agent_cot"
]
