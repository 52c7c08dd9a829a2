"""All ranks end their training, and join once more: what each is told."""

import tributary

job = tributary.join()
job.barrier()
job.finish()
try:
    tributary.join()
except tributary.TributaryError as error:
    print("told:", type(error).__name__, error, flush=True)
