/**
 * Owns how a person's client reports failures. Contract: "Errors": the owner API answers `{error,
 * error_description}`.
 */

interface ApiErrorOptions {
  status?: number | undefined
  reason?: string | undefined
  cause?: unknown
}

/**
 * A refusal of the API, or an API that could not be asked. `code` is its `error`, or one of `unreachable`,
 * `answer_malformed`, `answer_too_large`, `list_endless`, `address_refused`, `redirect_refused`, `aborted`.
 * `status` is undefined if nothing was answered. `reason` is the word by which the API tells refusals of one
 * code apart, if it gave one, or `not_served` if it does not have the path.
 */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly code: string
  readonly status: number | undefined
  readonly reason: string | undefined
  readonly detail: string

  constructor(code: string, detail: string, options: ApiErrorOptions = {}) {
    super(`${code}: ${detail}`, options.cause === undefined ? {} : { cause: options.cause })
    this.code = code
    this.status = options.status
    this.reason = options.reason
    this.detail = detail
  }

  /** Whether a later retry may help: there was no answer, or the service said that it is unavailable. */
  get temporary(): boolean {
    if (this.status === undefined) return this.code === 'unreachable'
    return this.status >= 500 || this.status === 429 || this.status === 408
  }
}
