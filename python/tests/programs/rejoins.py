"""All ranks end their training, join again, and print their errors."""

import tributary

job = tributary.join()
job.barrier()
job.finish()
try:
    tributary.join()
except tributary.TributaryError as error:
    print("raised:", type(error).__name__, error, flush=True)
