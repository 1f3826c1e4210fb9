/**
 * The spans of an organization's requests, as a receiver of OTLP gets them. Contract, "The organization's
 * authority", "Health"; docs/operating.md.
 */
import { describe, expect, it } from 'vitest'
import { receivedSpans } from '../support/received-spans.ts'
import { startScriptedServer } from '../support/scripted-http.ts'
import { startMemberStand } from '../support/organization-members.ts'
import { startedOnce } from '../support/started.ts'
import { until } from '../support/until.ts'

const CALLER = 'b7ad6b7169203331'
const stand = startedOnce(async () => {
  const receiver = await startScriptedServer(() => ({ body: { partialSuccess: {} } }))
  const started = await startMemberStand({
    environment: { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.origin },
  })
  const close = async (): Promise<void> => {
    await started.close()
    await receiver.close()
  }
  return { ...started, receiver, close }
})

/** A trace of its own for each request, and what came of it. */
const traced = (nth: number, flags = '01') => {
  const trace = `${nth}af7651916cd43dd8448eb211c80319c`
  return {
    traceparent: `00-${trace}-${CALLER}-${flags}`,
    spans: () => receivedSpans(stand.receiver, trace),
  }
}

describe('A request that is traced', () => {
  it('has a span at either listener, below the caller’s, with its route and what was answered', async () => {
    const [discovery, refused, invited] = [traced(1), traced(2), traced(3)]
    await stand.organization.request('/.well-known/ext-organization', {
      headers: { traceparent: discovery.traceparent },
    })
    await stand.asMember('not.a.token', {
      target: '/member/envelope',
      headers: { traceparent: refused.traceparent },
    })
    const { body } = await stand.organization.admin({
      method: 'POST',
      target: '/admin/invites',
      json: { owner: 'amy', as_uri: stand.first.uri },
      headers: { traceparent: invited.traceparent },
    })
    const wanted = [
      [discovery, 'GET', '/.well-known/ext-organization', 200],
      [refused, 'GET', '/member/envelope', 401],
      [invited, 'POST', '/admin/invites', 201],
    ] as const
    for (const [{ spans }, method, route, status] of wanted) {
      await until(() => spans().length > 0)
      expect(spans()).toMatchObject([
        {
          name: `${method} ${route}`,
          service: 'usher-organization',
          parentSpanId: CALLER,
          attributes: { 'http.route': route, 'http.response.status_code': status },
        },
      ])
    }
    const sent = stand.receiver.received.map(({ body: bytes }) => bytes.toString()).join('')
    for (const secret of [body.code as string, 'not.a.token', 'Bearer']) expect(sent).not.toContain(secret)
  })

  it('that its caller does not sample has none', async () => {
    const [unsampled, later] = [traced(4, '00'), traced(5)]
    for (const { traceparent } of [unsampled, later])
      await stand.organization.request('/jwks', { headers: { traceparent } })
    await until(() => later.spans().length > 0)
    expect(unsampled.spans()).toEqual([])
  })
})
