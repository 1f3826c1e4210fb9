/**
 * Her passkeys in the page, in a real browser with an authenticator of its own: contract, "Authentication"
 * (owner at the owner API), "Owner API" (`/owner/pending/{family}/decision`). By touch and by keyboard.
 */
import type { BrowserContextOptions, CDPSession, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { SignedStatement } from '../../src/wire/owner/decision-statement.ts'
import { verifyStatement } from '../../src/wire/owner/decision-statement.ts'
import type { Passkey } from '../../src/wire/owner/owner-credentials.ts'
import { pinnedPasskeys } from '../../src/wire/passkeys/passkey-claims.ts'
import { parsePinnedKeys } from '../../src/wire/signatures/pinned-keys.ts'
import type { TestAuthority } from '../support/authority.ts'
import { installedBrowser, type Device } from '../support/browser.ts'
import {
  card,
  consoleStand,
  DESK,
  enrolled,
  expectSound,
  PHONE,
  WAYS,
  type Way,
} from '../support/console-stand.ts'
import { startRealmAuthority, type RealmAuthority } from '../support/realm-authority.ts'
import { PAGE } from '../support/realm.ts'
import { describeWith } from '../support/requirement.ts'
import { protectionCall, testAgent } from '../support/test-agent.ts'

/** Browsers bind passkeys to names, and this machine's is `localhost`. */
const pageOf = ({ ownerUrl }: Pick<TestAuthority, 'ownerUrl'>): string =>
  ownerUrl.replace('127.0.0.1', 'localhost')

/** A device that keeps passkeys and knows its owner by her finger. */
interface Authenticator {
  credentials(): Promise<object[]>
  take(credentials: readonly object[]): Promise<void>
  /** Whether it will know her. */
  knows(isUserVerified: boolean): Promise<void>
}

async function authenticatorOf(page: Page): Promise<Authenticator> {
  const session: CDPSession = await page.context().newCDPSession(page)
  await session.send('WebAuthn.enable')
  const { authenticatorId } = await session.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      protocol: 'ctap2',
      transport: 'internal',
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true,
    },
  })
  return {
    credentials: async () => (await session.send('WebAuthn.getCredentials', { authenticatorId })).credentials,
    take: async credentials => {
      for (const credential of credentials)
        await session.send('WebAuthn.addCredential', { authenticatorId, credential: credential as never })
    },
    knows: async isUserVerified =>
      void (await session.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified })),
  }
}

describeWith(installedBrowser(), 'Passkeys', path => {
  const stand = consoleStand(path, { environment: { UMA_DEV_LOOPBACK: 'true' } })
  const { authority, browser } = stand

  async function opened(options: BrowserContextOptions): Promise<Device & { keeper: Authenticator }> {
    const device = await browser.open(pageOf(authority), options)
    return { ...device, keeper: await authenticatorOf(device.page) }
  }

  async function signedIn(options: BrowserContextOptions): Promise<Device & { keeper: Authenticator }> {
    const device = await opened(options)
    await enrolled(device, { authority, owner: authority.alice })
    return device
  }

  async function adds({ page }: Device, { press, write }: Way, name: string): Promise<void> {
    await press(page.getByRole('link', { name: 'Keys' }))
    await press(page.getByRole('button', { name: 'Add a passkey' }))
    await write(page.getByLabel('What you call this passkey'), name)
    await press(page.getByRole('button', { name: 'Make it' }))
    await page.getByText(`${name} is a passkey of yours now.`).waitFor()
  }

  async function listed(name: string): Promise<Passkey> {
    const { body } = await authority.call(authority.alice, { target: '/owner/passkeys' })
    return (body as Passkey[]).find(one => one.name === name)!
  }

  describe.each(WAYS)('by $name', way => {
    const { device: options, press } = way

    it('are added, sign in another browser of hers, and sign what she approves there', async () => {
      const name = `ring of ${way.name}`
      const first = await signedIn(options)
      await adds(first, way, name)
      const second = await opened(options)
      await second.keeper.take(await first.keeper.credentials())
      await press(second.page.getByRole('button', { name: 'Use a passkey' }))
      await second.page.getByRole('heading', { name: 'Waiting' }).waitFor()

      const agent = testAgent(authority)
      await stand.admit(agent)
      const operation = { tool: 'place_trade', params: { symbol: 'VTI', qty: 3 } }
      const { ticket, family } = await stand.waits(agent, 'place_trade', { operation })
      const one = card(second.page, family)
      const passkey = await listed(name)
      await one.getByLabel('Signed by').selectOption(passkey.id)
      const approved = one.getByText('Approved by you, on this device')
      await way.hold(one.getByRole('button', { name: 'Hold to approve' }), () => approved.waitFor())

      const { body } = await agent.present(ticket)
      const { body: told } = await protectionCall(authority, '/introspect', { token: body.access_token })
      const { statement } = told.owner_decision as { statement: SignedStatement }
      const keys = parsePinnedKeys(JSON.stringify(pinnedPasskeys(passkey)))
      const expected = { audience: authority.issuer, now: Math.floor(Date.now() / 1_000) }
      expect(verifyStatement(statement, keys, expected)).toMatchObject({ family, decision: 'approved' })
      await first.close()
      await second.close()
    })

    it('are removed, which signs out at once what they signed in', async () => {
      const name = `lost by ${way.name}`
      const first = await signedIn(options)
      await adds(first, way, name)
      const second = await opened(options)
      const id = (await listed(name)).id
      const hex = Buffer.from(id, 'base64url').toString('base64')
      const all = (await first.keeper.credentials()) as { credentialId: string }[]
      await second.keeper.take(all.filter(one => one.credentialId === hex))
      await press(second.page.getByRole('button', { name: 'Use a passkey' }))
      await second.page.getByRole('heading', { name: 'Waiting' }).waitFor()
      await press(first.page.getByRole('button', { name: `Remove: ${name}` }))
      await press(first.page.getByRole('button', { name: 'Remove now' }))
      await second.page.getByText('The key of this browser is not good any more').waitFor()
      await press(second.page.getByRole('button', { name: 'Use a passkey' }))
      await second.page.getByText('this passkey let nobody in').waitFor()
      await first.close()
      await second.close()
    })
  })

  it('of somebody whom the device does not know sign nothing, which is said', async () => {
    const way = WAYS[1]!
    const first = await signedIn(DESK)
    await adds(first, way, 'not mine')
    const second = await opened(DESK)
    await second.keeper.take(await first.keeper.credentials())
    await second.keeper.knows(false)
    await way.press(second.page.getByRole('button', { name: 'Use a passkey' }))
    await second.page.getByText('Nothing was signed').waitFor()
    // One device has one of her passkeys.
    await way.press(first.page.getByRole('button', { name: 'Add a passkey' }))
    await way.write(first.page.getByLabel('What you call this passkey'), 'once more')
    await way.press(first.page.getByRole('button', { name: 'Make it' }))
    await first.page.getByText('This device has a passkey of yours').waitFor()
    await first.close()
    await second.close()
  })

  it('stand on their pages without a fault that axe finds, and no wider than any screen', async () => {
    for (const options of [PHONE, DESK]) {
      const way = options === PHONE ? WAYS[0]! : WAYS[1]!
      const { page, ...device } = await signedIn(options)
      await adds({ page, ...device }, way, `pictured ${way.name}`)
      await page.getByText('As a resource pins it').first().click()
      await expectSound(page, 'keys-passkeys')
      await way.press(page.getByRole('button', { name: 'Add a passkey' }))
      await expectSound(page, 'keys-add-passkey')
      const { family } = await stand.waits(testAgent(authority))
      await page.goto(`${pageOf(authority)}/#/waiting`)
      await card(page, family).getByLabel('Signed by').waitFor()
      await expectSound(page, 'waiting-signer')
      await device.close()
      const out = await opened(options)
      await out.page.getByRole('button', { name: 'Use a passkey' }).waitFor()
      await expectSound(out.page, 'sign-in-passkey')
      await out.close()
    }
  })

  it('are not offered at an address that browsers bind none to', async () => {
    const device = await browser.open(authority.ownerUrl, DESK)
    await device.page.getByRole('button', { name: 'Make a request' }).waitFor()
    expect(await device.page.getByRole('button', { name: 'Use a passkey' }).count()).toBe(0)
    await device.close()
  })

  describe('beside a login at her realm', () => {
    let realm: RealmAuthority
    beforeAll(async () => {
      realm = await startRealmAuthority({
        logins: { alice: 'alice-at-work' },
        environment: { UMA_AS_CONSOLE_CLIENT: PAGE, UMA_AS_CONSOLE_SCOPE: 'openid owner' },
      })
      realm.realm.admitPage(`${pageOf(realm.authority)}/`)
    })
    afterAll(() => realm.close())

    it('sign what she approves, which the login alone does not', async () => {
      const way = WAYS[1]!
      const device = await browser.open(pageOf(realm.authority), DESK)
      const { page } = device
      await authenticatorOf(page)
      await way.press(page.getByRole('button', { name: 'Log in' }))
      await page.locator('input[name=login]').fill('alice-at-work')
      await page.locator('input[name=password]').fill('any')
      await page.locator('button[type=submit]').click()
      await page.getByRole('button', { name: 'Continue' }).click()
      await page.getByRole('heading', { name: 'Waiting' }).waitFor()
      await adds(device, way, 'key ring')
      const agent = testAgent(realm.authority)
      await agent.ask('portfolio_read')
      await way.press(page.getByRole('link', { name: 'Waiting' }))
      await way.press(page.getByRole('button', { name: 'Approve', exact: true }))
      await page.getByText('Approved by you, on this device').waitFor()
      const { body } = await realm.authority.call(realm.authority.alice, {
        target: `/owner/ledger?kind=approved&handle=${agent.handle}`,
      })
      expect(body.entries).toMatchObject([{ binding: 'signed', actor: { credential: 'login' } }])
      await device.close()
    })
  })
})
