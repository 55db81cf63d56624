import sys
from pathlib import Path

import pytest

# Test files of this folder share `contract`, the behaviours that every exchange must have.
sys.path.insert(0, str(Path(__file__).parent))
pytest.register_assert_rewrite("contract")
